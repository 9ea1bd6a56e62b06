//! Definitions of the custom resources of a program: installed from their types, and printed.
//!
//! ```
//! use std::time::Duration;
//!
//! use kinformer_controller::crd;
//! use kube_core::CustomResourceExt as _;
//!
//! # #[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
//! # struct Website;
//! # impl Website { fn crd() -> crd::CustomResourceDefinition { crd::CustomResourceDefinition::default() } }
//! # async fn example(client: &kube_client::Client) -> Result<(), Box<dyn std::error::Error>> {
//! // The type `Website` has kube's derive `CustomResource`.
//! crd::install(client, [Website::crd()], "my-controller", Duration::from_secs(30)).await?;
//! println!("{}", crd::yaml(&[Website::crd()])?);
//! # Ok(())
//! # }
//! ```

use std::time::Duration;

pub use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinitionCondition;
use kube_client::{Api, Client};
use tokio::time::{sleep, timeout_at};

use crate::apply;
use crate::write_error::WriteError;

/// A definition was not installed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CrdError {
    /// The API server has refused it.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The API server serves its resource not yet, or not at all.
    #[error("definition {name:?} was not established within {waited:?}: {state}")]
    NotEstablished {
        /// The name of the definition.
        name: String,
        /// How long the call has waited.
        waited: Duration,
        /// Its conditions, or the error of the last request.
        state: String,
    },
    /// It cannot be serialized.
    #[error("definition {name:?} cannot be serialized: {problem}")]
    Serialize {
        /// The name of the definition.
        name: String,
        /// What is wrong.
        problem: String,
    },
}

/// The shortest and the longest pause between two requests for a definition that is not established.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];

/// Creates or upgrades definitions by server-side apply, and waits until the API server serves their resources.
///
/// A version that is stored and missing here is refused by the API server (422), and so is a change of the scope.
///
/// # Errors
/// [`CrdError::Write`] if a definition is refused, and [`CrdError::NotEstablished`] at the end of the timeout, which is for all
/// of them together. Other definitions may be installed then.
///
/// # Cancel safety
/// Definitions may be installed. The call can be repeated.
#[doc(alias("CreateCRDs", "InstallCRDs", "WaitForCRDs"))]
pub async fn install(
    client: &Client,
    definitions: impl IntoIterator<Item = CustomResourceDefinition>,
    field_manager: &str,
    timeout: Duration,
) -> Result<(), CrdError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let deadline = crate::controller::after(timeout);
    let mut installed = Vec::new();
    for definition in definitions {
        installed.push(apply::object(&api, &definition, field_manager).await?);
    }
    for definition in installed {
        let name = definition.metadata.name.clone().unwrap_or_default();
        let mut state = state_of(&definition);
        if timeout_at(deadline, established(&api, &name, &mut state)).await.is_err() {
            let state = state.unwrap_or_default();
            return Err(CrdError::NotEstablished { name, waited: timeout, state });
        }
    }
    Ok(())
}

/// Asks for the definition until it is established. The state is that of the last answer.
async fn established(api: &Api<CustomResourceDefinition>, name: &str, state: &mut Option<String>) {
    let [mut pause, longest] = PAUSES;
    while state.is_some() {
        sleep(pause).await;
        pause = longest.min(pause * 2);
        *state = match api.get(name).await {
            Ok(definition) => state_of(&definition),
            Err(error) => Some(WriteError::request(name, error).to_string()),
        };
    }
}

/// Describes a definition that is not established; `None` if it is.
fn state_of(definition: &CustomResourceDefinition) -> Option<String> {
    let conditions = definition.status.as_ref().and_then(|status| status.conditions.as_deref());
    let conditions = conditions.unwrap_or_default();
    if conditions.iter().any(|condition| condition.type_ == "Established" && condition.status == "True") {
        return None;
    }
    let text = |condition: &CustomResourceDefinitionCondition| {
        let message = condition.message.as_deref().unwrap_or_default();
        format!("{} is {}: {message}", condition.type_, condition.status)
    };
    let texts: Vec<_> = conditions.iter().map(text).collect();
    Some(if texts.is_empty() { "it has no conditions".to_owned() } else { texts.join("; ") })
}

/// Returns definitions as YAML documents, for `kubectl apply -f -` or a file of manifests.
///
/// # Errors
/// [`CrdError::Serialize`], which a definition of kube's derive never is.
pub fn yaml(definitions: &[CustomResourceDefinition]) -> Result<String, CrdError> {
    let mut documents = Vec::new();
    for definition in definitions {
        let document = serde_saphyr::to_string(definition).map_err(|error| CrdError::Serialize {
            name: definition.metadata.name.clone().unwrap_or_default(),
            problem: error.to_string(),
        })?;
        documents.push(document);
    }
    Ok(documents.join("---\n"))
}
