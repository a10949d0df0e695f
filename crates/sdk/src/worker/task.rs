//! A task: one claimed execution on its way through a handler.

use super::ctx::Ctx;
use weft_api::Payload;
use weft_api::work::Task as Claimed;

/// What handlers and the layers around them get. `Ctx` has all there is to do with it.
#[derive(Clone, Debug)]
pub struct Task {
    pub(crate) ctx: Ctx,
}

impl Task {
    pub fn ctx(&self) -> &Ctx {
        &self.ctx
    }

    pub fn id(&self) -> &str {
        self.ctx.id()
    }

    pub fn kind(&self) -> &str {
        self.ctx.kind()
    }

    pub fn input(&self) -> Option<&Payload> {
        self.ctx.claimed().input.as_ref()
    }

    pub(crate) fn claimed(&self) -> &Claimed {
        self.ctx.claimed()
    }
}
