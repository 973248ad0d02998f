use super::*;
use std::path::PathBuf;

struct Pod(Option<&'static str>);

impl ConfigFiles for Pod {
    fn path(&self, written: &str) -> PathBuf {
        written.into()
    }

    fn read(&self, written: &str, _limit: usize) -> Result<Vec<u8>, String> {
        Err(format!("`{written}` is not there"))
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.0.filter(|_| name == "KUBERNETES_SERVICE_HOST").map(str::to_owned)
    }
}

fn built(yaml: &str) -> Result<Arc<dyn Source>, String> {
    let spec: KubernetesSourceSpec = serde_saphyr::from_str(yaml).map_err(|error| error.to_string())?;
    spec.build(&Pod(Some("10.96.0.1")))
}

#[test]
fn a_port_is_a_name_or_a_number() {
    for (port, query) in
        [("http", "shop/checkout:http"), ("8080", "shop/checkout:8080"), ("'80'", "shop/checkout:80")]
    {
        let source = built(&format!("{{ service: checkout, namespace: shop, port: {port} }}")).unwrap();
        assert_eq!(source.query(), query);
        let wanted = Wanted::parse(query).unwrap();
        assert_eq!(wanted.query("shop"), query);
    }
    assert_eq!(Wanted::parse("shop/checkout").unwrap().port, None);
    for bad in ["0", "70000", "-1", "Http", "''", "[]", "a_b"] {
        assert!(built(&format!("{{ service: checkout, port: {bad} }}")).is_err(), "{bad}");
    }
}

#[test]
fn what_is_no_name_of_kubernetes_is_refused() {
    for bad in
        ["{ service: 'a) or (b' }", "{ service: '' }", "{ service: a, namespace: a/b }", "{ service: -a }"]
    {
        assert!(built(bad).unwrap_err().contains("a name of Kubernetes"), "{bad}");
    }
    let long = "x".repeat(64);
    assert!(built(&format!("{{ service: {long} }}")).is_err());
    assert!(built("{ service: a, context: b }").unwrap_err().contains("`kubeconfig`"));
    assert!(built("{ service: a, kubeconfig: none }").unwrap_err().contains("`none` is not there"));
    assert!(built("{ service: a, wait: 100ms }").unwrap_err().contains("`wait`"));
}

#[test]
fn services_of_a_namespace_are_one_group() {
    let group = |yaml: &str| built(yaml).unwrap().group();
    assert_eq!(group("{ service: a, namespace: n }"), group("{ service: b, namespace: n, port: 80 }"));
    assert_ne!(group("{ service: a, namespace: n }"), group("{ service: a, namespace: m }"));
}

#[test]
fn selectors_name_the_services_while_they_are_few() {
    let wanted = |count: usize| -> Vec<_> {
        (0..count).map(|at| Wanted { service: format!("s{at:03}"), port: None }).collect()
    };
    let (slices, services) = selectors(&wanted(1));
    assert_eq!(slices, "labelSelector=kubernetes.io%2Fservice-name%20in%20%28s000%29");
    assert_eq!(services, "fieldSelector=metadata.name%3Ds000");
    let (slices, services) = selectors(&wanted(2));
    assert_eq!(slices, "labelSelector=kubernetes.io%2Fservice-name%20in%20%28s000%2Cs001%29");
    assert_eq!(services, "");
    assert_eq!(selectors(&wanted(NAMED + 1)).0, "labelSelector=kubernetes.io%2Fservice-name");
}

#[tokio::test]
async fn outside_of_a_cluster_the_help_names_the_key() {
    let (access, _) = Access::of_pod(&Pod(None));
    let why = access.api().await.unwrap_err();
    assert!(why.contains("help: write `kubeconfig`"), "{why}");
    let why = Api::of_pod(("10.96.0.1", 443), Path::new("/nowhere")).await.unwrap_err();
    assert!(why.contains("/nowhere/ca.crt") && why.contains("service account"), "{why}");
}
