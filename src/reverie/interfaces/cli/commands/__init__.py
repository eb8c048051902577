"""Commands, one module for each subject. Imports the command line options and everything below."""
