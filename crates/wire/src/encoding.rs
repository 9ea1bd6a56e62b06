//! The encodings of responses.

/// Calls a macro with the list of encodings: for each, the name of its codec and enum variant, and its folder.
macro_rules! encodings {
    ($macro:ident) => {
        // One line per encoding. The rest of an encoding is in its folder.
        $macro! {
            /// Available for every kind.
            #[default]
            Json in json;
            /// Available for built-in kinds. Takes a third of the CPU time of JSON in the server and in the client.
            Protobuf in protobuf;
        }
    };
}
pub(crate) use encodings;

macro_rules! encoding {
    ($($(#[$attribute:meta])* $name:ident in $folder:ident;)+) => {
        /// The encoding of a server's responses.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Encoding {
            $($(#[$attribute])* $name,)+
        }

        impl Encoding {
            /// All encodings.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The name in lower case, for example `json`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($folder),)+
                }
            }
        }
    };
}

encodings!(encoding);
