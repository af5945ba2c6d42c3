//! Paths and environments of real systems, and the unit that each process of them belongs to.

use iotrace_service::attribution::{Unit, unit};

const CONTAINER: &str = "2fa1b5c8d9e00112233445566778899aabbccddeeff00112233445566778899a";
const POD: &str = "3f1c2a4b-5d6e-4f70-8192-a3b4c5d6e7f8";

/// The path with `POD`, `POD_` (its dashes as underscores) and `ID` filled in.
fn fill(text: &str) -> String {
    text.replace("POD_", &POD.replace('-', "_"))
        .replace("POD", POD)
        .replace("ID", CONTAINER)
}

fn of_path(path: &str) -> Unit {
    unit(b"", &format!("0::{}\n", fill(path)), false)
}

#[test]
fn paths_of_version_2() {
    for (path, name) in [
        // Slurm up to 25.11, and 26.05 with CgroupJobIdPaths=yes
        (
            "/system.slice/slurmstepd.scope/job_4242/step_0/user/task_0",
            "slurm:4242",
        ),
        (
            "/system.slice/node01_slurmstepd.scope/job_7/step_batch/user/task_special",
            "slurm:7",
        ),
        (
            "/system.slice/slurmstepd.scope/job_7/step_extern/user/task_0",
            "slurm:7",
        ),
        // Slurm 26.05: the SLUID
        (
            "/system.slice/slurmstepd.scope/sEKNKTV3WPV500/step_0/user",
            "slurm:sEKNKTV3WPV500",
        ),
        (
            "/system.slice/slurmstepd.scope/system",
            "systemd:slurmstepd.scope",
        ),
        // Kubernetes with the systemd driver
        (
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podPOD_.slice/cri-containerd-ID.scope",
            "k8s:POD/2fa1b5c8d9e0",
        ),
        (
            "/kubepods.slice/kubepods-podPOD_.slice/crio-ID.scope",
            "k8s:POD/2fa1b5c8d9e0",
        ),
        (
            "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podPOD_.slice/docker-ID.scope",
            "k8s:POD/2fa1b5c8d9e0",
        ),
        (
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podPOD_.slice",
            "k8s:POD",
        ),
        (
            "/kubepods.slice/kubepods-podPOD_.slice/crio-conmon-ID.scope",
            "k8s:POD",
        ),
        (
            "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/\
             kubelet-kubepods-burstable-podPOD_.slice/cri-containerd-ID.scope",
            "k8s:POD/2fa1b5c8d9e0",
        ),
        // ... with the cgroupfs driver
        ("/kubepods/burstable/podPOD/ID", "k8s:POD/2fa1b5c8d9e0"),
        ("/kubepods/podPOD/ID", "k8s:POD/2fa1b5c8d9e0"),
        // ... of a file on the node
        (
            "/kubepods/burstable/pod0123456789abcdef0123456789abcdef/ID",
            "k8s:0123456789abcdef0123456789abcdef/2fa1b5c8d9e0",
        ),
        // containerd in the old configuration
        (
            "/system.slice/containerd.service/kubepods-burstable-podPOD_.slice:cri-containerd:ID",
            "k8s:POD/2fa1b5c8d9e0",
        ),
        // seen from a container, whose own cgroup is the root
        (
            "/../../kubepods-podPOD_.slice/cri-containerd-ID.scope",
            "k8s:POD/2fa1b5c8d9e0",
        ),
        ("/system.slice/docker-ID.scope", "docker:2fa1b5c8d9e0"),
        ("/docker/ID", "docker:2fa1b5c8d9e0"),
        ("/docker/ID/init.scope", "docker:2fa1b5c8d9e0"),
        (
            "/machine.slice/libpod-ID.scope/container",
            "podman:2fa1b5c8d9e0",
        ),
        (
            "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope",
            "user:1000",
        ),
        // A user's own directories, which may have any name
        (
            "/user.slice/user-1000.slice/user@1000.service/slurmstepd.scope/job_4242/step_0",
            "user:1000",
        ),
        (
            "/user.slice/user-1000.slice/user@1000.service/podPOD/ID",
            "user:1000",
        ),
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice/docker-ID.scope",
            "user:1000",
        ),
        (
            "/user.slice/user-1000.slice/user-0.slice/pbs_jobs.service/jobs/12.server",
            "user:1000",
        ),
        (
            "/system.slice/user@1000.service/lxc.payload.web",
            "user:1000",
        ),
        (
            "/machine.slice/libpod-conmon-ID.scope",
            "systemd:libpod-conmon-ID.scope",
        ),
        ("/system.slice/nerdctl-ID.scope", "container:2fa1b5c8d9e0"),
        ("/lxc.payload.web/init.scope", "container:web"),
        (
            "/machine.slice/machine-qemu\\x2d3\\x2dvm.scope/libvirt/emulator",
            "container:qemu-3-vm",
        ),
        ("/pbs_jobs.service/jobs/12.server", "pbs:12.server"),
        ("/user.slice/user-1000.slice/session-4.scope", "user:1000"),
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice/app-code.scope",
            "user:1000",
        ),
        ("/system.slice/nginx.service", "systemd:nginx.service"),
        (
            "/system.slice/system-getty.slice/getty@tty1.service",
            "systemd:getty@tty1.service",
        ),
        ("/init.scope", "systemd:init.scope"),
        ("/", "unknown"),
        ("/some/thing", "unknown"),
        // what is none of the above, however it looks
        ("/podium/abc", "unknown"),
        ("/kubepods/burstable/podPODx/ID", "unknown"),
        (
            "/system.slice/docker-1234.scope",
            "systemd:docker-1234.scope",
        ),
        (
            "/system.slice/slurmstepd.scope/job_12x/step_0",
            "systemd:slurmstepd.scope",
        ),
        (
            "/system.slice/slurmstepd.scope/sEKNKTV3WPVIL0/step_0",
            "systemd:slurmstepd.scope",
        ),
    ] {
        assert_eq!(of_path(path).name, cut(name), "{path}");
    }
}

/// As [`fill`]; a whole path has the whole id.
fn cut(name: &str) -> String {
    fill(name)
}

#[test]
fn paths_of_version_1_and_of_both() {
    let v1 = |path: &str| {
        fill(&format!(
            "12:pids:{path}\n5:memory:{path}\n1:name=systemd:{path}\n"
        ))
    };
    for (text, name) in [
        (v1("/slurm/uid_1000/job_99/step_0/task_3"), "slurm:99"),
        (v1("/slurm_node01/uid_1000/job_99/step_batch"), "slurm:99"),
        (v1("/kubepods/besteffort/podPOD/ID"), "k8s:POD/2fa1b5c8d9e0"),
        (v1("/kubepods.slice/kubepods-podPOD_.slice/docker-ID.scope"), "k8s:POD/2fa1b5c8d9e0"),
        (v1("/docker/ID"), "docker:2fa1b5c8d9e0"),
        (v1("/libpod_parent/libpod-ID"), "podman:2fa1b5c8d9e0"),
        (v1("/lxc/web"), "container:web"),
        (v1("/pbs_jobs.service/jobid/12.server"), "pbs:12.server"),
        // A hybrid system: one hierarchy knows the job, the others only the service.
        (
            "9:name=systemd:/system.slice/slurmd.service\n4:memory:/slurm/uid_0/job_5/step_0\n0::/\n".into(),
            "slurm:5",
        ),
        ("9:name=systemd:/\n3:cpuset:/\n0::/\n".into(), "unknown"),
        (String::new(), "unknown"),
        ("garbage\n::\n0:\n".into(), "unknown"),
    ] {
        assert_eq!(unit(b"", &text, false).name, cut(name), "{text}");
    }
}

#[test]
fn the_cgroup_decides_and_the_environment_claims() {
    let environ = b"PATH=/bin\0SLURM_JOB_ID=4242\0SLURM_STEP_ID=4294967291\0";
    for (path, name) in [
        ("/user.slice/user-1000.slice/session-4.scope", "user:1000"),
        ("/system.slice/slurmstepd.scope/job_7/step_0", "slurm:7"),
        (
            "/system.slice/slurmstepd.scope/sEKNKTV3WPV500/step_0",
            "slurm:sEKNKTV3WPV500",
        ),
        ("/pbs_jobs.service/jobs/12.server", "pbs:12.server"),
        ("/kubepods/podPOD/ID", "k8s:POD/2fa1b5c8d9e0"),
    ] {
        let unit = unit(environ, &format!("0::{}\n", fill(path)), false);
        assert_eq!((unit.name, unit.claimed), (cut(name), false), "{path}");
    }
    let path = "0::/system.slice/anything.service\n";
    let job = unit(environ, path, false);
    assert_eq!(
        (job.name.as_str(), job.job.as_str(), job.step.as_str()),
        ("slurm:4242", "4242", "")
    );
    assert!(job.claimed);
    assert_eq!(job.claimed_by().as_deref(), Some("unknown"));
    let step = unit(environ, path, true);
    assert_eq!(
        (step.name.as_str(), step.step.as_str()),
        ("slurm:4242.batch", "batch")
    );
    // A shell of step 0 that starts another step: the path knows it.
    let inner = "0::/system.slice/slurmstepd.scope/job_4242/step_7/user/task_0\n";
    assert_eq!(
        unit(b"SLURM_JOB_ID=4242\0SLURM_STEP_ID=0\0", inner, true).name,
        "slurm:4242.7"
    );
    for (environ, name) in [
        ("PBS_JOBID=12.server\0", "pbs:12.server"),
        ("LSB_JOBID=77\0", "lsf:77"),
        ("A=\0SLURM_JOB_ID=1\0PBS_JOBID=2\0", "slurm:1"),
        // Anybody can write anything there.
        ("SLURM_JOB_ID=\0", "unknown"),
        ("SLURM_JOB_ID=1\n2\0", "unknown"),
        ("SLURM_JOB_ID=1\"} 1\0", "unknown"),
        ("PBS_JOBID=a b\0", "unknown"),
        ("XSLURM_JOB_ID=5\0", "unknown"),
    ] {
        assert_eq!(
            unit(environ.as_bytes(), "0::/\n", false).name,
            name,
            "{environ:?}"
        );
    }
}

#[test]
fn a_job_in_a_container_keeps_both_names() {
    let path = "0::/kubepods.slice/kubepods-podPOD_.slice/cri-containerd-ID.scope/slurmstepd.scope/job_9/step_0\n";
    let unit = unit(b"", &fill(path), false);
    assert_eq!((unit.name.as_str(), unit.claimed), ("slurm:9", false));
    assert_eq!(unit.pod_uid, POD);
    assert_eq!(unit.container_id, format!("containerd://{CONTAINER}"));
}

#[test]
fn names_are_those_of_an_environment_of_the_same_job() {
    let path = "0::/system.slice/slurmstepd.scope/job_4242/step_0/user/task_0\n";
    let service = "0::/system.slice/nginx.service\n";
    for (cgroup, id, expected) in [
        (path, "SLURM_JOB_ID=4242", "gpu"),
        (path, "SLURM_JOB_ID=4243", ""),
        (path, "PBS_JOBID=4242", ""),
        (path, "HOME=/root", ""),
        (service, "SLURM_JOB_ID=4242", "gpu"), // claimed
        (
            "0::/user.slice/user-1000.slice/session-1.scope\n",
            "SLURM_JOB_ID=4242",
            "",
        ),
    ] {
        let environ = format!("SLURM_JOB_PARTITION=gpu\0{id}\0");
        let unit = unit(environ.as_bytes(), cgroup, false);
        assert_eq!(unit.names.partition, expected, "{id} in {cgroup}");
    }
}
