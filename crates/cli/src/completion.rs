//! `weft completion`: what a shell needs to complete commands and flags.

use crate::{End, terminal};
use anyhow::Result;
use clap_complete::Shell;

/// Print completions for a shell
#[derive(clap::Args)]
#[command(before_help = "example: weft completion bash")]
#[command(after_help = "bash:  weft completion bash > ~/.local/share/bash-completion/completions/weft\n\
                        zsh:   weft completion zsh > \"${fpath[1]}/_weft\"\n\
                        fish:  weft completion fish > ~/.config/fish/completions/weft.fish")]
pub struct Args {
    /// Which shell
    #[arg(value_enum)]
    shell: Shell,
}

pub fn run(args: Args, mut command: clap::Command) -> Result<End> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "weft", &mut script);
    terminal::put_bytes(&script)?;
    Ok(End::Done)
}
