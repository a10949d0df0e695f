//! Every transition of an execution, one file each.
