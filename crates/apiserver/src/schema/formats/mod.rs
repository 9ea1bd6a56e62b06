//! The formats of strings. Follows Kubernetes 1.37 (`kube-openapi/pkg/validation/strfmt`).

mod codes;
mod network;
mod times;

/// A format that Kubernetes checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    BsonObjectId,
    Byte,
    Cidr,
    CreditCard,
    Date,
    DateTime,
    Duration,
    Email,
    HexColor,
    Hostname,
    Ipv4,
    Ipv6,
    Isbn,
    Isbn10,
    Isbn13,
    LongName,
    Mac,
    Password,
    RgbColor,
    ShortName,
    Ssn,
    Uri,
    /// With the version that it must have.
    Uuid(Option<u8>),
}

impl Format {
    /// Parses a name, whose hyphens have no meaning; `None` if Kubernetes does not check the format.
    pub(super) fn of(name: &str) -> Option<Self> {
        if name.is_empty() {
            return None;
        }
        let normal = name.replace('-', "");
        Some(match normal.as_str() {
            "bsonobjectid" => Self::BsonObjectId,
            "byte" => Self::Byte,
            "cidr" => Self::Cidr,
            "creditcard" => Self::CreditCard,
            "date" => Self::Date,
            "datetime" => Self::DateTime,
            "duration" => Self::Duration,
            "email" => Self::Email,
            "hexcolor" => Self::HexColor,
            "hostname" => Self::Hostname,
            "ipv4" => Self::Ipv4,
            "ipv6" => Self::Ipv6,
            "isbn" => Self::Isbn,
            "isbn10" => Self::Isbn10,
            "isbn13" => Self::Isbn13,
            "k8slongname" => Self::LongName,
            "k8sshortname" => Self::ShortName,
            "mac" => Self::Mac,
            "password" => Self::Password,
            "rgbcolor" => Self::RgbColor,
            "ssn" => Self::Ssn,
            "uri" => Self::Uri,
            "uuid" => Self::Uuid(None),
            "uuid3" => Self::Uuid(Some(3)),
            "uuid4" => Self::Uuid(Some(4)),
            "uuid5" => Self::Uuid(Some(5)),
            _ => return None,
        })
    }

    /// Whether a string has the format.
    pub(super) fn accepts(self, text: &str) -> bool {
        match self {
            Self::BsonObjectId => text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
            Self::Byte => codes::is_base64(text),
            Self::Cidr => network::is_cidr(text),
            Self::CreditCard => codes::is_credit_card(text),
            Self::Date => times::is_date(text),
            Self::DateTime => times::is_date_time(text),
            Self::Duration => times::is_duration(text),
            Self::Email => network::is_email(text),
            Self::HexColor => codes::is_hex_color(text),
            Self::Hostname => network::is_hostname(text),
            Self::Ipv4 => text.contains('.') && network::is_ip(text),
            Self::Ipv6 => text.contains(':') && text.parse::<std::net::Ipv6Addr>().is_ok(),
            Self::Isbn => codes::is_isbn10(text) || codes::is_isbn13(text),
            Self::Isbn10 => codes::is_isbn10(text),
            Self::Isbn13 => codes::is_isbn13(text),
            Self::LongName => text.len() <= 253 && text.split('.').all(codes::is_name),
            Self::Mac => network::is_mac(text),
            Self::Password => true,
            Self::RgbColor => codes::is_rgb_color(text),
            Self::ShortName => text.len() <= 63 && codes::is_name(text),
            Self::Ssn => codes::is_ssn(text),
            Self::Uri => network::is_uri(text),
            Self::Uuid(version) => codes::is_uuid(text, version),
        }
    }
}
