//! Certificates in PEM.

use base64::Engine;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Base64 with or without padding, since PEM is read leniently.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Returns the certificates of a PEM text, in DER. Skips everything else and blocks that cannot be decoded, as Go
/// does.
pub fn certificates(pem: &[u8]) -> Vec<Vec<u8>> {
    let mut certificates = Vec::new();
    let mut block: Option<Vec<u8>> = None;
    for line in pem.split(|byte| matches!(byte, b'\n' | b'\r')).map(<[u8]>::trim_ascii) {
        match line {
            b"-----BEGIN CERTIFICATE-----" => block = Some(Vec::new()),
            b"-----END CERTIFICATE-----" => {
                certificates.extend(block.take().and_then(|block| LENIENT.decode(block).ok()));
            }
            _ if line.starts_with(b"-----") => block = None,
            _ => {
                if let Some(block) = &mut block {
                    block.extend_from_slice(line);
                }
            }
        }
    }
    certificates
}

/// Decodes base64 without regard to white space, such as line breaks.
pub(crate) fn base64(text: &str) -> Option<Vec<u8>> {
    base64::engine::general_purpose::STANDARD.decode(without_white_space(text)).ok()
}

pub(crate) fn without_white_space(text: &str) -> String {
    text.split_ascii_whitespace().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_blocks_are_skipped() {
        let block =
            |kind: &str, text: &str| format!("-----BEGIN {kind}-----\n{text}\n-----END {kind}-----\n");
        let certificate = |text: &str| block("CERTIFICATE", text);
        assert_eq!(certificates(certificate("YWI=").as_bytes()), [b"ab"]);
        let crlf = certificate("YW\nI=").replace('\n', "\r\n");
        assert_eq!(certificates(crlf.as_bytes()), [b"ab"]);
        let unended = "-----BEGIN CERTIFICATE-----\nYWI=\n";
        let bundle = [
            "# comment\n",
            &certificate("*"),
            &block("PRIVATE KEY", "YWI="),
            unended,
            &certificate("YWM="),
            unended,
        ];
        assert_eq!(certificates(bundle.concat().as_bytes()), [b"ac"]);
        assert!(certificates(b"").is_empty());
    }
}
