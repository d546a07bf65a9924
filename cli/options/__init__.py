"""The options of each command. These modules load nothing that takes time: a wrong line costs as
little as help does. A command itself is loaded when its line was right."""
