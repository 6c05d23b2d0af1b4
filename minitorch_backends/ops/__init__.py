"""The operations: one decorated block each. Importing a module declares its ops and installs their methods."""
