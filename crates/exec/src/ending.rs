//! How a program's process ended, before anybody says what it means.

pub struct Ending {
    /// Why it was told to end; none if it ended by itself.
    pub cause: Option<Cause>,
    pub how: How,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The caller's wish.
    Stop,
    /// It wrote more than a result may have.
    TooLong,
}

pub enum How {
    Exited(i32),
    /// By the signal of this number.
    Killed(i32),
    /// With the reason.
    NotStarted(String),
    /// The supervisor ended first, so nobody saw how the program did.
    Unsupervised {
        started: bool,
    },
}
