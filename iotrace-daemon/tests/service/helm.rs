//! The Helm chart: what Helm renders of it, by the schemas of Kubernetes, and by iotrace itself.

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use crate::common::{self, daemon::Daemon, export::environment, tool};
use serde_json::Value;

const UNIT: &str = include_str!("../../../deploy/systemd/iotrace.service");
/// The first and the last release whose schemas are known.
const KUBERNETES: [&str; 2] = ["1.25", "1.37"];
/// Everything that is off otherwise.
const ALL: &str = r#"
image: {repository: registry.example/iotrace, digest: "sha256:0000000000000000000000000000000000000000000000000000000000000000"}
imagePullSecrets: [pull]
config:
  trace: {detail: full, map_entries: 262144}
  http: {users: {ada: "$2y$10$abcdefghijklmnopqrstuuUWdWfXWGaKkXG3hpXFbCEmSzDhqkQeG"}}
  metrics: {max_series: 40000, linger: 30m, slurm_steps: true}
  memory: {max_files: 1000000}
configExtra: |
  [[rule]]
  name = "data"
  phase = "training"
  glob = "/data/**"
tlsSecret: iotrace-tls
tracefs: true
seccompProfile: {type: Localhost, localhostProfile: profiles/iotrace.json}
networkPolicy: {from: [{podSelector: {matchLabels: {app: prometheus}}}]}
podMonitor: {enabled: true, labels: {release: prometheus}}
serviceMonitor: {enabled: true, interval: 30s}
prometheusRule: {enabled: true, labels: {release: prometheus}}
dashboard: {enabled: true}
priorityClassName: ""
affinity: {nodeAffinity: {}}
podAnnotations: {a: b}
podLabels: {team: storage}
serviceAccount: {annotations: {c: d}}
"#;

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../deploy")
        .join(file)
}

/// `helm ACTION` of the chart with these values.
fn helm(action: &[&str], values: &str) -> Output {
    let (_dir, path) = common::directory();
    let file = path.join("values.yaml");
    fs::write(&file, values).unwrap();
    // On PATH, or where the setup puts it.
    let own = environment("kubernetes")
        .ancestors()
        .nth(4)
        .unwrap()
        .join("helm");
    let program = if own.is_file() { own } else { tool("helm") };
    Command::new(program)
        .args(action)
        .arg(deploy("helm/iotrace"))
        .arg("--values")
        .arg(&file)
        .env("HOME", &path)
        .output()
        .expect("helm")
}

/// Runs a program of the environment with this on its standard input.
fn python(program: &str, args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(environment("kubernetes").with_file_name(program))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

/// What the chart renders, as YAML and as values.
fn rendered(values: &str) -> (Vec<u8>, Vec<Value>) {
    let out = helm(&["template", "io", "--namespace", "monitoring"], values);
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    const TO_JSON: &str = "import json, sys, yaml\n\
                           print(json.dumps([one for one in yaml.safe_load_all(sys.stdin) if one]))";
    let json = python("python", &["-c", TO_JSON], &out.stdout);
    let objects: Vec<Value> = serde_json::from_slice(&json.stdout).expect("YAML");
    assert!(!objects.is_empty());
    (out.stdout, objects)
}

/// The one object of a kind.
fn of_kind<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    let mut found = objects.iter().filter(|object| object["kind"] == kind);
    let object = found.next().unwrap_or_else(|| panic!("no {kind}"));
    assert!(found.next().is_none(), "more than one {kind}");
    object
}

fn container(objects: &[Value]) -> &Value {
    let pod = &of_kind(objects, "DaemonSet")["spec"]["template"]["spec"];
    assert_eq!(pod["containers"].as_array().unwrap().len(), 1);
    &pod["containers"][0]
}

/// Capabilities that the container asks for, as the unit writes them.
fn capabilities(objects: &[Value]) -> BTreeSet<String> {
    let added = &container(objects)["securityContext"]["capabilities"]["add"];
    let names = added.as_array().unwrap().iter();
    names
        .map(|name| format!("CAP_{}", name.as_str().unwrap()))
        .collect()
}

#[test]
fn helm_finds_no_fault() {
    for values in ["", ALL] {
        let out = helm(&["lint", "--strict"], values);
        let said = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success(), "{said}");
        assert!(
            !said.contains("[WARNING]") && !said.contains("[ERROR]"),
            "{said}"
        );
    }
}

#[test]
fn nobody_but_the_monitoring_may_ask_for_metrics() {
    let from = |values: &str| {
        let (_, objects) = rendered(values);
        let spec = &of_kind(&objects, "NetworkPolicy")["spec"];
        let pod = &of_kind(&objects, "DaemonSet")["spec"]["template"]["metadata"]["labels"];
        let selected = spec["podSelector"]["matchLabels"].as_object().unwrap();
        assert!(selected.iter().all(|(name, value)| pod[name] == *value));
        assert_eq!(spec["ingress"][0]["ports"][0]["port"], "metrics");
        spec["ingress"][0]["from"][0].clone()
    };
    let labels = &from("")["namespaceSelector"]["matchLabels"];
    assert_eq!(labels["kubernetes.io/metadata.name"], "monitoring");
    assert_eq!(from(ALL)["podSelector"]["matchLabels"]["app"], "prometheus");
    let (_, off) = rendered("networkPolicy: {enabled: false}");
    assert!(!off.iter().any(|object| object["kind"] == "NetworkPolicy"));
}

/// A kind of the Prometheus operator, not one of Kubernetes' own.
fn is_of_the_operator(object: &Value) -> bool {
    let version = object["apiVersion"].as_str().unwrap();
    version.starts_with("monitoring.coreos.com/")
}

#[test]
fn the_operator_knows_the_monitors_and_rules() {
    // A model of the custom resource drops what it does not know: what comes back is what went in.
    const CHECK: &str = "import json, sys\n\
                         from cloudcoil.models.prometheus_operator import v1\n\
                         given = json.load(sys.stdin)\n\
                         known = getattr(v1, given['kind']).model_validate(given)\n\
                         known = known.model_dump(by_alias=True, exclude_unset=True, mode='json')\n\
                         assert known == given, (known, given)";
    let (_, objects) = rendered(ALL);
    let monitors: Vec<Value> = objects.into_iter().filter(is_of_the_operator).collect();
    let kinds: BTreeSet<_> = monitors.iter().map(|one| one["kind"].as_str()).collect();
    assert_eq!(
        kinds,
        BTreeSet::from([
            Some("PodMonitor"),
            Some("PrometheusRule"),
            Some("ServiceMonitor")
        ])
    );
    let check = |monitor: &Value| {
        let out = python("python", &["-c", CHECK], monitor.to_string().as_bytes());
        (
            out.status.success(),
            String::from_utf8_lossy(&out.stderr).into_owned(),
        )
    };
    for monitor in &monitors {
        let (is_known, said) = check(monitor);
        assert!(is_known, "{monitor}: {said}");
        let mut wrong = monitor.clone();
        wrong["spec"]["selectors"] = serde_json::json!({});
        assert!(!check(&wrong).0, "a key that there is not: {wrong}");
    }
}

#[test]
fn the_chart_has_the_shipped_rules_and_dashboard() {
    let (_, objects) = rendered(ALL);
    let groups = &of_kind(&objects, "PrometheusRule")["spec"]["groups"];
    let shipped = ["rules.yml", "alerts.yml"].map(|file| {
        let text = fs::read(deploy("prometheus").join(file)).unwrap();
        const TO_JSON: &str =
            "import json, sys, yaml\nprint(json.dumps(yaml.safe_load(sys.stdin)['groups'][0]))";
        let json = python("python", &["-c", TO_JSON], &text);
        serde_json::from_slice::<Value>(&json.stdout).expect("YAML")
    });
    assert_eq!(groups, &serde_json::json!(shipped));
    let maps = objects
        .iter()
        .filter(|object| object["kind"] == "ConfigMap");
    let map = maps
        .into_iter()
        .find(|map| map["data"]["iotrace.json"].is_string());
    let map = map.expect("a dashboard");
    assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
    let given = map["data"]["iotrace.json"].as_str().unwrap();
    let shipped = fs::read_to_string(deploy("grafana/iotrace.json")).unwrap();
    assert_eq!(given.trim_end(), shipped.trim_end());
    let (_, off) = rendered("");
    assert!(!off.iter().any(|object| object["kind"] == "PrometheusRule"));
}

#[test]
fn kubernetes_knows_everything_that_is_rendered() {
    let (_dir, path) = common::directory();
    for (name, values) in [("default", ""), ("all", ALL)] {
        let objects = rendered(values).1.into_iter();
        let own = objects.filter(|object| !is_of_the_operator(object));
        for (index, object) in own.enumerate() {
            let file = path.join(format!("{name}-{index}.yaml"));
            fs::write(&file, object.to_string()).unwrap();
            for version in KUBERNETES {
                let args = ["--strict", "-k", version, file.to_str().unwrap()];
                let out = python("kubernetes-validate", &args, b"");
                let said = [out.stdout, out.stderr].concat();
                let said = String::from_utf8_lossy(&said);
                assert!(
                    out.status.success() && said.contains("passed"),
                    "{object}: {said}"
                );
            }
        }
    }
}

#[test]
fn pods_may_do_what_the_unit_may_and_no_more() {
    let (_, objects) = rendered("");
    let unit = UNIT
        .lines()
        .find_map(|line| line.strip_prefix("CapabilityBoundingSet="))
        .unwrap();
    let unit: BTreeSet<String> = unit.split(' ').map(str::to_owned).collect();
    assert_eq!(capabilities(&objects), unit);
    let (_, all) = rendered(ALL);
    let more = &capabilities(&all) - &unit;
    assert_eq!(more, BTreeSet::from(["CAP_DAC_READ_SEARCH".to_owned()]));
    for objects in [&objects, &all] {
        let context = &container(objects)["securityContext"];
        assert_eq!(context["capabilities"]["drop"], serde_json::json!(["ALL"]));
        assert_eq!(context["allowPrivilegeEscalation"], false);
        assert_eq!(context["readOnlyRootFilesystem"], true);
        assert!(context["privileged"].is_null());
        let pod = &of_kind(objects, "DaemonSet")["spec"]["template"]["spec"];
        assert_eq!(pod["hostPID"], true);
        assert!(pod["hostNetwork"].is_null());
        for volume in pod["volumes"].as_array().unwrap() {
            let path = &volume["hostPath"]["path"];
            let below_kernel = path
                .as_str()
                .is_none_or(|path| path.starts_with("/sys/kernel/"));
            assert!(below_kernel, "{volume}");
        }
        let mounts = container(objects)["volumeMounts"].as_array().unwrap();
        assert!(
            mounts.iter().all(|mount| mount["readOnly"] == true),
            "{mounts:?}"
        );
        // Nothing is asked of the API.
        assert_eq!(pod["automountServiceAccountToken"], false);
        assert!(
            !objects
                .iter()
                .any(|object| object["kind"].as_str().unwrap().contains("Role"))
        );
    }
}

#[test]
fn what_scrapes_finds_the_pods() {
    let (_, objects) = rendered(ALL);
    let daemon_set = of_kind(&objects, "DaemonSet");
    let labels = &daemon_set["spec"]["template"]["metadata"]["labels"];
    let port = &container(&objects)["ports"][0];
    let service = of_kind(&objects, "Service");
    assert_eq!(service["spec"]["ports"][0]["targetPort"], port["name"]);
    for (kind, endpoints, selected) in [
        ("PodMonitor", "podMetricsEndpoints", labels),
        (
            "ServiceMonitor",
            "endpoints",
            &service["metadata"]["labels"],
        ),
    ] {
        let monitor = of_kind(&objects, kind);
        let selector = monitor["spec"]["selector"]["matchLabels"]
            .as_object()
            .unwrap();
        assert!(
            selector
                .iter()
                .all(|(name, value)| selected[name] == *value),
            "{kind}"
        );
        let endpoint = &monitor["spec"][endpoints][0];
        assert_eq!(endpoint["port"], port["name"]);
        assert_eq!(endpoint["scheme"], "https");
    }
    let selector = service["spec"]["selector"].as_object().unwrap();
    assert!(selector.iter().all(|(name, value)| labels[name] == *value));
    let annotations = &daemon_set["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(
        annotations["prometheus.io/port"],
        port["containerPort"].to_string()
    );
}

#[test]
fn the_service_starts_with_the_charts_configuration_and_capabilities() {
    let (_dir, path) = common::directory();
    let file = path.join("iotrace.toml");
    let config = |objects: &[Value]| {
        let mut texts = objects
            .iter()
            .filter_map(|object| object["data"]["iotrace.toml"].as_str());
        fs::write(&file, texts.next().expect("a configuration")).unwrap();
    };
    // The check opens what is named, and there is no certificate here.
    let (_, all) = rendered(&ALL.replace("tlsSecret: iotrace-tls", ""));
    config(&all);
    let out = Command::new(env!("CARGO_BIN_EXE_iotrace"))
        .args(["daemon", "--check-config", "--config"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let (_, objects) = rendered("config: {metrics: {max_series: 40000}}");
    config(&objects);
    common::need_root();
    let kept: String = capabilities(&objects)
        .iter()
        .map(|name| format!(",+{}", name.trim_start_matches("CAP_").to_lowercase()))
        .collect();
    // As a container's root user, which has no right but these.
    let mut command = Command::new(tool("setpriv"));
    command
        .args(["--no-new-privs", "--clear-groups"])
        .arg(format!("--bounding-set=-all{kept}"))
        .arg(env!("CARGO_BIN_EXE_iotrace"))
        .args([
            "daemon",
            "--listen",
            "127.0.0.1:0",
            "--map-entries",
            "4096",
            "--config",
        ])
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let daemon = Daemon::start(&mut command);
    let status: Value = serde_json::from_str(&daemon.get("/status").body).unwrap();
    let hooks = status["hooks"].as_array().unwrap();
    assert!(
        hooks.iter().all(|hook| hook["attached"] == true),
        "{hooks:?}"
    );
    let limit = common::daemon::sum(&daemon.scrape(), "iotrace_series_limit", &[]);
    assert_eq!(limit, 40000.0);
}

#[test]
fn values_that_are_wrong_are_refused_by_name() {
    for (values, named) in [
        ("config: {metrics: {max_serie: 1}}", "max_serie"),
        (
            "config: {metrics: {max_series: 5}}",
            "/config/metrics/max_series",
        ),
        ("config: {trace: {detail: deep}}", "/config/trace/detail"),
        ("config: {http: {listen: '[::]:1'}}", "listen"),
        (
            "config: {http: {users: {ada: plain}}}",
            "/config/http/users/ada",
        ),
        ("port: 99999", "/port"),
        ("image: {repository: ''}", "/image/repository"),
        ("image: {digest: 'sha256:12'}", "/image/digest"),
        ("podMonitor: {interval: soon}", "/podMonitor/interval"),
        ("dashboard: {label: {}}", "label"),
        ("updateStrategy: {type: Never}", "/updateStrategy/type"),
        ("resource: {}", "resource"),
        ("seccompProfile: {type: None}", "/seccompProfile/type"),
        ("seccompProfile: {type: Localhost}", "/seccompProfile"),
        (
            "seccompProfile: {localhostProfile: iotrace.json}",
            "/seccompProfile",
        ),
        (
            "seccompProfile: {type: Localhost, localhostProfile: /iotrace.json}",
            "/seccompProfile/localhostProfile",
        ),
    ] {
        let out = helm(&["template", "io"], values);
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success(), "{values} is taken");
        assert!(said.contains(named), "{values}: {said}");
    }
}
