//! The formats of strings. Follows Kubernetes 1.37 (`kube-openapi/pkg/validation/strfmt`).

use crate::dns::has_label_form;
use crate::go_url::Url;

mod codes;
mod network;
mod times;

pub(crate) use times::go_duration;
#[cfg(feature = "cel")]
pub(super) use times::nanoseconds;

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
            Self::Duration => times::nanoseconds(text).is_some(),
            Self::Email => network::is_email(text),
            Self::HexColor => codes::is_hex_color(text),
            Self::Hostname => network::is_hostname(text),
            Self::Ipv4 => text.contains('.') && network::is_ip(text),
            Self::Ipv6 => text.contains(':') && text.parse::<std::net::Ipv6Addr>().is_ok(),
            Self::Isbn => codes::is_isbn10(text) || codes::is_isbn13(text),
            Self::Isbn10 => codes::is_isbn10(text),
            Self::Isbn13 => codes::is_isbn13(text),
            Self::LongName => text.len() <= 253 && text.split('.').all(has_label_form),
            Self::Mac => network::is_mac(text),
            Self::Password => true,
            Self::RgbColor => codes::is_rgb_color(text),
            Self::ShortName => text.len() <= 63 && has_label_form(text),
            Self::Ssn => codes::is_ssn(text),
            Self::Uri => Url::parse_request(text).is_ok(),
            Self::Uuid(version) => codes::is_uuid(text, version),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Format;

    #[test]
    fn formats_accept_what_go_accepts() {
        let rows: &[(&str, &[&str], &[&str])] = &[
            ("bsonobjectid", &["507f1f77bcf86cd799439011"], &["x"]),
            ("byte", &["YQ==", "YWI=", "AAAA"], &["", "YQ=", "a", "A==="]),
            ("cidr", &["10.0.0.0/8", "::/0", "010.0.0.0/8"], &["10.0.0.0", "10.0.0.0/33", "/8"]),
            ("creditcard", &["4111-1111-1111-1111"], &["4111", "4111111111111112"]),
            ("date", &["2026-02-28", "2024-02-29"], &["2026-02-30", "2026-2-3", "x"]),
            (
                "date-time",
                &["2026-01-01T00:00:00Z", "2026-01-01t10:20:30.5+01:00"],
                &["2026-13-01T00:00:00Z", "2026-01-01T25:00:00Z", "2026-01-01T00:00:00", "2026-01-01"],
            ),
            ("duration", &["1h", "1.5m", "2 days", "3 minutes", "-1h2m"], &["", "10", "5x"]),
            ("email", &["a@b", "A B <c@d.e>", "\"x y\"@z"], &["a", "a@", "a@b..c"]),
            ("hexcolor", &["#fff", "123456"], &["ggg", "#ffff"]),
            ("hostname", &["a.bc", "x", "1"], &["-a", "a_b", "a.b", ""]),
            ("ipv4", &["1.2.3.4", "01.2.3.4", "::ffff:1.2.3.4"], &["1.2.3", "::1", "1.2.3.256"]),
            ("ipv6", &["::1", "fe80::1"], &["1::2::3", "1.2.3.4", "fe80::1%eth0"]),
            ("isbn", &["0321751043", "978-0321751041"], &["1", "0321751044"]),
            ("k8s-long-name", &["a.b"], &["a..b", "A"]),
            ("k8s-short-name", &["a-b"], &["a.b", "A", "-a"]),
            ("mac", &["00:11:22:33:44:55", "00-11-22-33-44-55", "0011.2233.4455"], &["x", "00:11:22:33:44"]),
            ("password", &[""], &[]),
            ("rgbcolor", &["rgb(1,2,3)", "rgb( 1 , 2 , 3 )"], &["rgb(1,2,300)", "rgb(1,2)"]),
            ("ssn", &["111-11-1111"], &["111111111"]),
            (
                "uri",
                &["http://a/b", "/a", "*", "http://[::1]:80/", "mailto:x"],
                &["a", "", "://a", "http://a/%zz", "?x"],
            ),
            (
                "uuid",
                &["123e4567-e89b-12d3-a456-426614174000", "123e4567e89b12d3a456426614174000"],
                &["123e4567"],
            ),
            ("uuid4", &["123e4567-e89b-42d3-a456-426614174000"], &["123e4567-e89b-12d3-a456-426614174000"]),
        ];
        for (name, good, bad) in rows {
            let format = Format::of(name).unwrap();
            assert!(good.iter().all(|text| format.accepts(text)), "{name} {good:?}");
            assert!(!bad.iter().any(|text| format.accepts(text)), "{name} {bad:?}");
        }
        assert_eq!(Format::of("int32"), None);
    }
}
