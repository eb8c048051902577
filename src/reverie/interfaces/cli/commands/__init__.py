"""The commands, one file for each subject; `main.COMMANDS` names them all."""
