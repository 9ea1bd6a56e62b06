//! JSON or protobuf.

/// How a server writes its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encoding {
    /// Every kind has it.
    #[default]
    Json,
    /// Built-in kinds have it; it is a third of the work for the server, and for us.
    Protobuf,
}

impl Encoding {
    /// What a request accepts, and an answer says of itself.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    /// The encoding of an answer, by its `Content-Type`, of which parameters such as `;stream=watch` say nothing.
    /// Of another type there is none; what has no type at all is best taken for JSON.
    pub fn of_content_type(content_type: &str) -> Option<Self> {
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        [Self::Json, Self::Protobuf]
            .into_iter()
            .find(|known| known.media_type().eq_ignore_ascii_case(media_type))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_its_encoding() {
        let of = Encoding::of_content_type;
        assert_eq!(of("application/json"), Some(Encoding::Json));
        assert_eq!(of("Application/JSON; charset=utf-8"), Some(Encoding::Json));
        assert_eq!(of("application/vnd.kubernetes.protobuf;stream=watch"), Some(Encoding::Protobuf));
        assert_eq!((of("text/html"), of(""), of("application/cbor")), (None, None, None));
    }
}
