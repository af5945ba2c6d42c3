//! What this host has: for `iotrace check`.
