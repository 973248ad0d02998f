//! Public keys in PEM: `PUBLIC KEY` (RFC 5280), `RSA PUBLIC KEY` (RFC 8017) and `CERTIFICATE`.

use super::key::{Curve, Material};
use x509_parser::prelude::{FromDer, Pem, SubjectPublicKeyInfo, X509Certificate};
use x509_parser::public_key::{PublicKey, RSAPublicKey};

/// Most keys of a file.
const KEYS: usize = 128;

/// All keys of a text.
pub(super) fn keys(text: &[u8]) -> Result<Vec<Material>, String> {
    let mut found = Vec::new();
    for block in Pem::iter_from_buffer(text).take(KEYS) {
        let block = block.map_err(|_| "it is not PEM")?;
        let broken = |_| format!("its `{}` cannot be read", block.label);
        match block.label.as_str() {
            "PUBLIC KEY" => {
                let (_, info) = SubjectPublicKeyInfo::from_der(&block.contents).map_err(broken)?;
                found.push(material(&info)?);
            }
            "CERTIFICATE" => {
                let (_, certificate) = X509Certificate::from_der(&block.contents).map_err(broken)?;
                found.push(material(certificate.public_key())?);
            }
            "RSA PUBLIC KEY" => {
                let (_, key) = RSAPublicKey::from_der(&block.contents).map_err(broken)?;
                found.push(rsa(&key));
            }
            label if label.contains("PRIVATE") => {
                return Err(
                    "it holds a private key; give the public one, as `openssl pkey -pubout` makes it".into(),
                );
            }
            _ => {}
        }
    }
    if found.is_empty() {
        return Err("it holds no public key and no certificate in PEM".into());
    }
    Ok(found)
}

fn rsa(key: &RSAPublicKey<'_>) -> Material {
    let trimmed = |bytes: &[u8]| bytes.iter().copied().skip_while(|byte| *byte == 0).collect();
    Material::Rsa { n: trimmed(key.modulus), e: trimmed(key.exponent) }
}

fn material(info: &SubjectPublicKeyInfo<'_>) -> Result<Material, String> {
    const ED25519: &str = "1.3.101.112";
    let unknown = || "it holds a key that is neither RSA, P-256, P-384, P-521 nor Ed25519".to_owned();
    if info.algorithm.algorithm.to_id_string() == ED25519 {
        return Ok(Material::Ed25519(info.subject_public_key.data.to_vec()));
    }
    match info.parsed() {
        Ok(PublicKey::RSA(key)) => Ok(rsa(&key)),
        Ok(PublicKey::EC(point)) => {
            let name = info.algorithm.parameters.as_ref().and_then(|name| name.as_oid().ok());
            let curve = match name.map(|name| name.to_id_string()).as_deref() {
                Some("1.2.840.10045.3.1.7") => Curve::P256,
                Some("1.3.132.0.34") => Curve::P384,
                Some("1.3.132.0.35") => Curve::P521,
                _ => return Err(unknown()),
            };
            let point = point.data();
            if point.len() != 1 + 2 * curve.size() || point[0] != 4 {
                return Err("it holds a point of a curve that is not uncompressed".into());
            }
            Ok(Material::Ec(curve, point.to_vec()))
        }
        _ => Err(unknown()),
    }
}
