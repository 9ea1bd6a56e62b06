//! Makes the sources of an informer, at its start and when its scope changes.

use std::sync::Arc;

use kinformer_kube::{DecodedCache, KubeListerWatcher, PackedObject};
use kinformer_shared_informer::Sources;
use kube_client::Client;
use kube_core::discovery::ApiResource;

use crate::options::Options;
use crate::projection::{Decision, ProjectedSource, Projection};
use crate::scope::Scope;
use crate::selection::{self, ChosenSource, Selected, WatchChoice};

/// Makes the sources of one informer.
pub(crate) struct MakeSource {
    pub(crate) client: Client,
    pub(crate) options: Arc<Options>,
    pub(crate) resource: ApiResource,
    pub(crate) cache: DecodedCache,
    pub(crate) projection: Projection,
    pub(crate) decision: Decision,
    pub(crate) choice: WatchChoice,
}

impl MakeSource {
    pub(crate) fn source(&self, projection: Projection, part: &Selected) -> KubeListerWatcher<PackedObject> {
        let (client, of) = (self.client.clone(), self.resource.clone());
        let source = match projection {
            Projection::Whole => KubeListerWatcher::packed_dynamic(client, of),
            Projection::Metadata => KubeListerWatcher::packed_metadata(client, of),
        };
        self.options.restrict(source, &self.resource, part, &self.cache)
    }

    pub(crate) fn whole(&self, part: &Selected) -> KubeListerWatcher<PackedObject> {
        self.source(Projection::Whole, part)
    }

    fn projected(&self, part: &Selected) -> ProjectedSource {
        ProjectedSource::new(|projection| self.source(projection, part), self.decision.clone())
    }

    /// Lets a source of several namespaces ask whether one watch is to have them.
    fn chosen<S>(&self, source: S, part: &Selected) -> ChosenSource<S> {
        let question =
            part.is_several().then(|| (self.choice.clone(), self.source(Projection::Metadata, part)));
        ChosenSource { source, question }
    }

    /// Returns the sources of an informer that starts with these parts.
    pub(crate) fn sources(&self, parts: &[Selected]) -> Sources<PackedObject> {
        match self.projection {
            Projection::Whole => selection::sources(parts, |part| self.chosen(self.whole(part), part)),
            Projection::Metadata => selection::sources(parts, |part| self.chosen(self.projected(part), part)),
        }
    }

    /// Returns the parts of a scope, with their sources. `before` are the present ones, and `next` is the number of the next
    /// new part without a name of its own.
    pub(crate) fn of_scope(
        &self,
        scope: &Scope,
        before: &[Selected],
        next: &mut u32,
    ) -> (Vec<Selected>, Sources<PackedObject>) {
        let parts = self.options.parts_of(&self.resource, (scope, &self.choice), before, next);
        let sources = match self.projection {
            Projection::Whole => {
                selection::changed_sources(&parts, |part| self.chosen(self.whole(part), part))
            }
            Projection::Metadata => {
                selection::changed_sources(&parts, |part| self.chosen(self.projected(part), part))
            }
        };
        (parts, sources)
    }
}
