"""A small closed world whose facts are known, so that true quality can be measured beside the training reward."""
