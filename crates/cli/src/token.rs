//! Bearer tokens: where they come from, and how they are kept out of all output.

use std::convert::Infallible;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;

use crate::exit::Error;

/// The environment variable that can hold a token.
pub(crate) const VARIABLE: &str = "KINFORMER_TOKEN";

/// The environment variable that can hold the token of `kinformer serve`.
pub(crate) const SERVE_VARIABLE: &str = "KINFORMER_SERVE_TOKEN";

/// Upper bound on the size of a token file, since a file may be endless.
const MOST_BYTES: u64 = 64 * 1024;

/// A bearer token. Its `Debug` output does not contain it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(String);

impl Token {
    /// Returns the token, for a header or a file.
    pub(crate) fn secret(&self) -> &str {
        &self.0
    }

    /// # Errors
    /// [`Error::Config`]: the token is not valid in an HTTP header. `from` names its origin.
    fn usable(self, from: &str) -> Result<Self, Error> {
        if self.0.is_empty() || !self.0.bytes().all(|byte| byte.is_ascii_graphic()) {
            let reason = "it is empty or has characters that are not allowed in an HTTP header".into();
            return Err(Error::Config { what: from.to_owned(), reason });
        }
        Ok(self)
    }
}

impl FromStr for Token {
    type Err = Infallible;

    /// Accepts any text: a parse error would repeat the token.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// The token flags. Without them, the environment variable is used.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub(crate) struct TokenArgs {
    /// The bearer token. Other users of this machine can see it in the process list; --token-file and KINFORMER_TOKEN
    /// avoid that
    #[arg(long, value_name = "TOKEN", global = true)]
    token: Option<Token>,
    /// A file with the bearer token; clients reread it about once a minute
    #[arg(long, value_name = "FILE", conflicts_with = "token", global = true)]
    token_file: Option<PathBuf>,
}

/// The flags for the token that requests to `kinformer serve` must carry. `--token` is the one for the API server, as in
/// all commands that connect to a cluster.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ServeTokenArgs {
    /// The bearer token that requests to this program must carry, not the one for the API server (--token). Other users
    /// of this machine can see it in the process list; --serve-token-file and KINFORMER_SERVE_TOKEN avoid that
    #[arg(long, value_name = "TOKEN")]
    serve_token: Option<Token>,
    /// A file with that token
    #[arg(long, value_name = "FILE", conflicts_with = "serve_token")]
    serve_token_file: Option<PathBuf>,
}

impl ServeTokenArgs {
    /// Returns the token of the command line or else of the environment, if there is one.
    ///
    /// # Errors
    /// [`Error::Config`]: the file cannot be read, or the value is not a valid token.
    pub(crate) fn resolve(&self) -> Result<Option<Token>, Error> {
        if let Some(token) = &self.serve_token {
            return token.clone().usable("--serve-token").map(Some);
        }
        if let Some(path) = &self.serve_token_file {
            return read("--serve-token-file", path).map(Some);
        }
        from_environment(SERVE_VARIABLE)
    }
}

/// Returns the token of an environment variable that is set and not empty.
fn from_environment(variable: &str) -> Result<Option<Token>, Error> {
    let value = std::env::var_os(variable).filter(|value| !value.is_empty());
    value.map(|value| Token(value.to_string_lossy().into_owned()).usable(variable)).transpose()
}

/// A token and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenSource {
    /// From `--token`.
    Flag(Token),
    /// From `--token-file`, with the current content of the file.
    File(PathBuf, Token),
    /// From [`VARIABLE`].
    Environment(Token),
}

impl TokenArgs {
    /// Returns the token of the command line or else of the environment, if there is one.
    ///
    /// # Errors
    /// [`Error::Config`]: the file cannot be read, or the value is not a valid token.
    pub(crate) fn resolve(&self) -> Result<Option<TokenSource>, Error> {
        if let Some(token) = &self.token {
            return token.clone().usable("--token").map(|token| Some(TokenSource::Flag(token)));
        }
        if let Some(path) = &self.token_file {
            return read("--token-file", path).map(|token| Some(TokenSource::File(path.clone(), token)));
        }
        Ok(from_environment(VARIABLE)?.map(TokenSource::Environment))
    }
}

impl TokenSource {
    pub(crate) fn token(&self) -> &Token {
        match self {
            Self::Flag(token) | Self::File(_, token) | Self::Environment(token) => token,
        }
    }
}

/// Reads a token file. White space around the token is ignored, as in client-go.
fn read(flag: &str, path: &Path) -> Result<Token, Error> {
    let from = format!("{flag} {}", path.display());
    let file = std::fs::File::open(path).map(|file| file.take(MOST_BYTES));
    let text = file
        .and_then(io::read_to_string)
        .map_err(|error| Error::Config { what: from.clone(), reason: error.to_string() })?;
    Token(text.trim().to_owned()).usable(&from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_never_printed() {
        let token = Token("s3cret".into());
        let args = TokenArgs { token: Some(token.clone()), token_file: None };
        let given = args.resolve().expect("usable").expect("there");
        assert_eq!(given.token().secret(), "s3cret");
        for shown in [format!("{token:?}"), format!("{args:?}"), format!("{given:?}")] {
            assert!(!shown.contains("s3cret"), "{shown}");
        }
        let error = Token("s3cret\n".into()).usable("--token").expect_err("not usable");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    }
}
