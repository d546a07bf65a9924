"""An AWS account on this machine: the engine, its simulators and the repairs of its gaps."""
