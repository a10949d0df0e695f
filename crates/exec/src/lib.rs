//! One task as one child process: any program is a worker.
//!
//! The program gets its input on stdin, what upstreams handed over as files, and what it may want to know in its
//! environment. Its stdout is the result, its stderr is the log, its exit code is the outcome, and on a pipe of its own
//! (`WEFT_CONTROL`) it may say more than that.
//! Claiming and settling belong to the caller; nothing of HTTP, leases or the engine is known here.
//!
//! The program does not run under the worker but under a *supervisor* ([`supervise`]), a process that the same binary
//! starts for each task. It hangs on the worker by a socket. When the socket closes, because [`run`] was dropped or
//! because the worker was killed in whatever way, it kills all that the program started and goes away itself.

mod body;
mod control;
mod ending;
mod finish;
mod folder;
mod inputs;
mod lines;
mod link;
mod marked;
mod nearest;
mod output;
mod program;
mod report;
mod run;
mod supervise;
mod supervised;
mod task;

pub use body::Body;
pub use control::LINE_MAX as CONTROL_LINE_MAX;
pub use finish::{Failure, Finish, MESSAGE_MAX, Retry, brief, category};
pub use inputs::{Input, InputFailure, Inputs};
pub use output::{LOG_LINE_MAX, TAIL_LINES};
pub use program::{Program, check_line, this_binary};
pub use report::Report;
pub use run::run;
pub use supervise::supervise;
pub use task::{Member, Task};
