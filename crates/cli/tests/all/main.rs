//! The real binary, from outside: what it prints, how it exits, and what survives when it is killed.

mod bench;
mod demo;
mod kill;
mod process;
mod sim;
mod usage;
