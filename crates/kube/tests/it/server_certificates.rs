//! Which server certificates are trusted.

use crate::common::certificates::{authority, issue, tls};
use crate::common::{PATIENCE, empty_list};
use k8s_openapi::api::core::v1::ConfigMap;
use kinformer_kube::{KubeListerWatcher, client, client_http1};
use kinformer_reflector::{ListOptions, ListerWatcher};
use kinformer_testing::scripted_http::ScriptedServer;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};
use tokio_rustls::rustls::pki_types::CertificateDer;

/// A self-signed certificate and its key.
struct SelfSigned {
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

fn self_signed(name: &str, change: impl FnOnce(&mut CertificateParams)) -> SelfSigned {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    SelfSigned { certificate: certificate.der().clone(), key: key.serialize_der() }
}

/// The result of a list from a server with the certificate `server` by a client that trusts `trusted`.
async fn trusts(server: &SelfSigned, trusted: &[&CertificateDer<'static>]) -> Result<(), String> {
    let tls = tls(server.certificate.clone(), server.key.clone(), None);
    let scripted = ScriptedServer::https(tls, |_| empty_list()).await;
    let mut config = scripted.config();
    config.root_cert = Some(trusted.iter().map(|der| der.to_vec()).collect());
    let mut results = Vec::new();
    for make in [client, client_http1] {
        let source = KubeListerWatcher::<ConfigMap>::new(make(config.clone()).unwrap());
        let listed = tokio::time::timeout(PATIENCE, source.list(ListOptions::at_version(""))).await.unwrap();
        results.push(listed.map(|_| ()).map_err(|error| error.to_string()));
    }
    // The error of an expired certificate contains the time.
    let without_times = |result: &Result<(), String>| {
        result.clone().map_err(|error| error.replace(|c: char| c.is_ascii_digit(), ""))
    };
    assert_eq!(without_times(&results[0]), without_times(&results[1]));
    assert_eq!(scripted.requests().len(), if results[0].is_ok() { 2 } else { 0 });
    results.remove(0)
}

fn refused(result: Result<(), String>, why: &str) {
    let error = result.unwrap_err();
    assert!(error.contains("invalid peer certificate") && error.contains(why), "{error}");
}

/// A server certificate that is its own CA is accepted if the CA bundle contains it.
// contract: L-23d
#[tokio::test]
async fn own_ca_certificate_in_bundle_is_accepted() {
    let plain = self_signed("127.0.0.1", |_| {});
    let other = authority("other");
    assert_eq!(trusts(&plain, &[&plain.certificate]).await, Ok(()));
    assert_eq!(trusts(&plain, &[other.der(), &plain.certificate]).await, Ok(()));
    // Dates in both forms, for the start and the end.
    for (from, until) in [((1970, 1), (2049, 12)), ((1999, 1), (2050, 1)), ((2000, 2), (9999, 12))] {
        let dated = self_signed("127.0.0.1", |params| {
            params.not_before = date_time_ymd(from.0, from.1, 1);
            params.not_after = date_time_ymd(until.0, until.1, 31);
        });
        assert_eq!(trusts(&dated, &[&dated.certificate]).await, Ok(()), "{from:?} {until:?}");
    }
}

/// A server certificate that is its own CA is refused if the CA bundle does not contain exactly it.
// contract: L-23d
#[tokio::test]
async fn own_ca_certificate_not_in_bundle_is_refused() {
    let plain = self_signed("127.0.0.1", |_| {});
    refused(trusts(&plain, &[authority("other").der()]).await, "");
    // Another one of the same name.
    refused(trusts(&plain, &[&self_signed("127.0.0.1", |_| {}).certificate]).await, "");
    // The same key and name, but other bytes.
    let key = KeyPair::generate().unwrap();
    let of_key = |serial: u64| {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.serial_number = Some(serial.into());
        SelfSigned { certificate: params.self_signed(&key).unwrap().der().clone(), key: key.serialize_der() }
    };
    refused(trusts(&of_key(1), &[&of_key(2).certificate]).await, "CaUsedAsEndEntity");
}

/// The name and the dates of a server certificate that is its own CA are checked.
// contract: L-23e
#[tokio::test]
async fn own_ca_certificate_name_and_dates_are_checked() {
    let elsewhere = self_signed("127.0.0.2", |_| {});
    refused(trusts(&elsewhere, &[&elsewhere.certificate]).await, "not valid for name");
    for year in [1999, 2020] {
        let expired = self_signed("127.0.0.1", |params| params.not_after = date_time_ymd(year, 1, 1));
        refused(trusts(&expired, &[&expired.certificate]).await, "expired");
    }
    for year in [2049, 2050] {
        let early = self_signed("127.0.0.1", |params| params.not_before = date_time_ymd(year, 1, 1));
        refused(trusts(&early, &[&early.certificate]).await, "not valid yet");
    }
}

/// Certificates that are not their own CA are verified by rustls alone.
#[tokio::test]
async fn other_certificates_are_verified_by_rustls() {
    let leaf = self_signed("127.0.0.1", |params| params.is_ca = IsCa::ExplicitNoCa);
    assert_eq!(trusts(&leaf, &[&leaf.certificate]).await, Ok(()));
    refused(trusts(&leaf, &[authority("other").der()]).await, "UnknownIssuer");
    let elsewhere = self_signed("127.0.0.2", |params| params.is_ca = IsCa::ExplicitNoCa);
    refused(trusts(&elsewhere, &[&elsewhere.certificate]).await, "not valid for name");

    let root = authority("root");
    let issued = issue(&root, "server");
    let key = KeyPair::from_pem(&issued.key).unwrap().serialize_der();
    let issued = SelfSigned { certificate: issued.der, key };
    assert_eq!(trusts(&issued, &[root.der()]).await, Ok(()));
    refused(trusts(&issued, &[authority("other").der()]).await, "UnknownIssuer");
}

/// A server certificate whose CA is unknown is accepted if the bundle contains it, with its name and dates.
// contract: L-23d, L-23e
#[tokio::test]
async fn certificate_in_bundle_needs_no_issuer() {
    let root = authority("root");
    let issued = |name: &str, change: fn(&mut CertificateParams)| {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &root).unwrap();
        SelfSigned { certificate: certificate.der().clone(), key: key.serialize_der() }
    };
    let plain = issued("127.0.0.1", |_| {});
    assert_eq!(trusts(&plain, &[&plain.certificate]).await, Ok(()));
    refused(trusts(&plain, &[&issued("127.0.0.1", |_| {}).certificate]).await, "UnknownIssuer");
    let elsewhere = issued("127.0.0.2", |_| {});
    refused(trusts(&elsewhere, &[&elsewhere.certificate]).await, "not valid for name");
    let expired = issued("127.0.0.1", |params| params.not_after = date_time_ymd(2020, 1, 1));
    refused(trusts(&expired, &[&expired.certificate]).await, "expired");
}
