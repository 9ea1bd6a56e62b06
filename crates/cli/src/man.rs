//! `kinformer man`: man pages, for packages of the program.

use clap::CommandFactory;

use crate::args::{Cli, ManArgs};
use crate::exit::Error;

/// Writes a page for the program and one for each command.
///
/// # Errors
/// [`Error::Write`].
pub(crate) fn run(args: &ManArgs) -> Result<(), Error> {
    let path = args.directory.display().to_string();
    clap_mangen::generate_to(Cli::command(), &args.directory).map_err(|source| Error::Write { path, source })
}
