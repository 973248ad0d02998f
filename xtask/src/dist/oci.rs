//! A container image from nothing (OCI image layout 1.0), as one archive that `docker load`, `podman load` and `skopeo`
//! read, without a daemon.

use anyhow::Result;
use serde_json::{Value, json};

use super::tree::Tree;
use super::{Job, sha256, tar};

/// The service's user.
const USER: &str = "65532:65532";

/// The image with these files in its one layer.
pub(super) fn image(job: &Job, tree: &Tree) -> Result<Vec<u8>> {
    let layer = tar::write(tree, job.epoch)?;
    let packed = tar::gzip(&layer)?;
    let config = serde_json::to_vec(&config(job, &sha256(&layer)?))?;
    let layers = json!([blob("application/vnd.oci.image.layer.v1.tar+gzip", &packed)?]);
    let manifest = serde_json::to_vec(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob("application/vnd.oci.image.config.v1+json", &config)?,
        "layers": layers,
    }))?;
    let name = format!("thalweg:{}", job.version);
    let mut described = blob("application/vnd.oci.image.manifest.v1+json", &manifest)?;
    described["platform"] = json!({ "architecture": "amd64", "os": "linux" });
    described["annotations"] = json!({
        "org.opencontainers.image.ref.name": job.version,
        "io.containerd.image.name": format!("docker.io/library/{name}"),
    });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [described],
    });
    // What Docker read before it knew the layout.
    let older = json!([{ "Config": place(&config)?, "RepoTags": [name], "Layers": [place(&packed)?] }]);
    let mut archive = Tree::default();
    archive.file("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec());
    archive.file("index.json", 0o644, serde_json::to_vec(&index)?);
    archive.file("manifest.json", 0o644, serde_json::to_vec(&older)?);
    for bytes in [config, manifest, packed] {
        archive.file(&place(&bytes)?, 0o644, bytes);
    }
    tar::write(&archive, job.epoch)
}

/// How the image is run.
fn config(job: &Job, layer: &str) -> Value {
    let created = timestamp(job.epoch);
    json!({
        "created": created,
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "User": USER,
            "ExposedPorts": { "8080/tcp": {} },
            "Env": ["PATH=/usr/bin", "THALWEG_ADMIN_SOCKET=/run/thalweg/admin.sock"],
            "Entrypoint": ["/usr/bin/thalweg"],
            "Cmd": ["run", "--config", "/etc/thalweg/thalweg.yaml"],
            "WorkingDir": "/var/lib/thalweg",
            "Volumes": { "/var/lib/thalweg": {} },
            "StopSignal": "SIGTERM",
            // In nanoseconds.
            "Healthcheck": {
                "Test": ["CMD", "/usr/bin/thalweg", "health"],
                "Interval": 10_000_000_000_u64,
                "Timeout": 5_000_000_000_u64,
                "StartPeriod": 10_000_000_000_u64,
                "Retries": 3,
            },
            "Labels": {
                "org.opencontainers.image.title": "thalweg",
                "org.opencontainers.image.description": "reverse proxy, load balancer and API gateway",
                "org.opencontainers.image.version": job.version,
                "org.opencontainers.image.licenses": "Apache-2.0 OR MIT",
                "org.opencontainers.image.created": created,
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{layer}")] },
        "history": [{ "created": created, "created_by": "cargo xtask dist" }],
    })
}

fn blob(kind: &str, bytes: &[u8]) -> Result<Value> {
    Ok(json!({ "mediaType": kind, "digest": format!("sha256:{}", sha256(bytes)?), "size": bytes.len() }))
}

fn place(bytes: &[u8]) -> Result<String> {
    Ok(format!("blobs/sha256/{}", sha256(bytes)?))
}

/// Seconds since 1970 as RFC 3339 has them.
pub(super) fn timestamp(epoch: u64) -> String {
    let (days, seconds) = (epoch / 86_400, epoch % 86_400);
    // The civil calendar, in eras of 400 years that begin in March.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::timestamp;

    #[test]
    fn seconds_are_written_as_dates() {
        for (epoch, written) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_795_661_045, "2026-11-26T02:44:05Z"),
        ] {
            assert_eq!(timestamp(epoch), written);
        }
    }
}
