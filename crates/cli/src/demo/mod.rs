//! `kinformer demo`: informers at work on a small cluster that lives in this process.

pub(crate) mod churn;
pub(crate) mod cluster;
mod story;
mod view;

use crate::args::DemoArgs;
use crate::embedded::Embedded;
use crate::exit::Error;
use crate::stop::Stop;

/// Shows it until it is told to stop.
///
/// # Errors
/// [`Error::Embedded`].
pub(crate) async fn run(args: DemoArgs, stop: Stop) -> Result<(), Error> {
    let embedded = Embedded::start(args.seed).await?;
    stop.requested().await;
    embedded.shutdown().await;
    Ok(())
}
