//! Bearer tokens: where they come from, and that none is ever shown.

use std::convert::Infallible;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;

use crate::exit::Error;

/// The environment variable with a token.
pub(crate) const VARIABLE: &str = "KINFORMER_TOKEN";

/// No token is longer, and a file may have no end.
const MOST_BYTES: u64 = 64 * 1024;

/// A bearer token. What is shown of it is that there is one.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(String);

impl Token {
    /// For a header or a file.
    pub(crate) fn secret(&self) -> &str {
        &self.0
    }

    /// # Errors
    /// [`Error::Config`]: it cannot stand in an HTTP header. `from` says where it comes from.
    fn usable(self, from: &str) -> Result<Self, Error> {
        if self.0.is_empty() || !self.0.bytes().all(|byte| byte.is_ascii_graphic()) {
            let reason = "it is empty or has characters that cannot stand in an HTTP header".into();
            return Err(Error::Config { what: from.to_owned(), reason });
        }
        Ok(self)
    }
}

impl FromStr for Token {
    type Err = Infallible;

    /// Takes any text: an error of the command line would repeat it.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// A token on the command line. Without one, that of the environment is taken.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TokenArgs {
    /// The bearer token. Other users of this machine can see it in the list of processes: --token-file and
    /// KINFORMER_TOKEN keep it from them
    #[arg(long, value_name = "TOKEN")]
    token: Option<Token>,
    /// A file with the bearer token; clients read it again about once a minute
    #[arg(long, value_name = "FILE", conflicts_with = "token")]
    token_file: Option<PathBuf>,
}

/// A token, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// By `--token`.
    Flag(Token),
    /// By `--token-file`, with what the file holds now.
    File(PathBuf, Token),
    /// By [`VARIABLE`].
    Environment(Token),
}

impl TokenArgs {
    /// The token of the command line, else that of the environment, if there is one.
    ///
    /// # Errors
    /// [`Error::Config`]: the file cannot be read, or what was given is no token.
    pub(crate) fn given(&self) -> Result<Option<Given>, Error> {
        if let Some(token) = &self.token {
            return token.clone().usable("--token").map(|token| Some(Given::Flag(token)));
        }
        if let Some(path) = &self.token_file {
            return read(path).map(|token| Some(Given::File(path.clone(), token)));
        }
        match std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
            Some(value) => {
                let token = Token(value.to_string_lossy().into_owned()).usable(VARIABLE)?;
                Ok(Some(Given::Environment(token)))
            }
            None => Ok(None),
        }
    }
}

impl Given {
    pub(crate) fn token(&self) -> &Token {
        match self {
            Self::Flag(token) | Self::File(_, token) | Self::Environment(token) => token,
        }
    }
}

/// The blanks and line ends around a token are no part of it, as in client-go.
fn read(path: &Path) -> Result<Token, Error> {
    let from = format!("--token-file {}", path.display());
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
    fn a_token_is_never_shown() {
        let token = Token("s3cret".into());
        let args = TokenArgs { token: Some(token.clone()), token_file: None };
        let given = args.given().expect("usable").expect("there");
        assert_eq!(given.token().secret(), "s3cret");
        for shown in [format!("{token:?}"), format!("{args:?}"), format!("{given:?}")] {
            assert!(!shown.contains("s3cret"), "{shown}");
        }
        let error = Token("s3cret\n".into()).usable("--token").expect_err("not usable");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    }
}
