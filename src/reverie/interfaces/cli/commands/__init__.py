"""What does each command do? One file for each thing that commands are about; `cli` names them all."""
