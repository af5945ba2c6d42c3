//! Paths as frameworks and formats make them, each used in both directions, one test per framework.
//!
//! A row is a path, what a read of it is, and what a write of it is. `-` stands for a direction of no interest.

use crate::{Classifier, phase::Direction};

/// Fails unless the built-in rules sort each path as its row says.
fn sorts(rows: &[(&str, &str, &str)]) {
    sorts_on("ext4", rows);
}

/// The same on a type of filesystem.
fn sorts_on(fs_type: &str, rows: &[(&str, &str, &str)]) {
    let classifier = Classifier::builtin();
    for (path, read, written) in rows {
        let verdict = classifier.verdict(path.as_bytes(), false, fs_type);
        for (direction, expected) in [(Direction::Read, read), (Direction::Write, written)] {
            let phase = verdict.phase(direction);
            let found = phase.class().map_or(phase.name(), |class| class.name());
            let rule = verdict
                .rule(direction)
                .map(|rule| &classifier.rules().all()[rule].name);
            assert!(
                *expected == "-" || found == *expected,
                "{path} {direction:?}: {found} by {rule:?}, expected {expected}"
            );
        }
    }
}

#[test]
fn files_in_memory() {
    sorts_on(
        "tmpfs",
        &[
            ("/dev/shm/imagenet/n01440764_1.jpg", "training", "ipc"),
            ("/dev/shm/data/part-0.parquet", "training", "ipc"),
            ("/dev/shm/ckpt/step_1.pt", "restore", "checkpoint"),
            ("/dev/shm/torch_4242_12345_0", "ipc", "ipc"),
            ("/dev/shm/psm_1a2b3c", "ipc", "ipc"),
            ("/dev/shm/batch.npy", "ipc", "ipc"),
            ("/dev/shm/nccl-abc123", "ipc", "ipc"),
        ],
    );
}

#[test]
fn pytorch() {
    sorts(&[
        ("/home/u/run/model.pt", "restore", "checkpoint"),
        ("/home/u/run/model.pt.tmp", "-", "checkpoint"),
        ("/home/u/run/model-epoch-003.pt", "restore", "checkpoint"),
        ("/home/u/run/model-epoch-003.pt.tmp", "-", "checkpoint"),
        ("/home/u/run/model_best.pth.tar", "restore", "checkpoint"),
        ("/home/u/run/resnet50.pth", "restore", "checkpoint"),
        (
            "/home/u/.cache/torch/hub/checkpoints/resnet50-0676ba61.pth",
            "restore",
            "cache",
        ),
        ("/home/u/.cache/whisper/base.pt", "restore", "cache"),
        ("/home/u/.cache/clip/ViT-B-32.pt", "restore", "cache"),
        (
            "/data/imagenet/train/n01440764/n01440764_10026.JPEG",
            "training",
            "-",
        ),
        (
            "/opt/venv/lib/python3.11/site-packages/torch/nn/functional.py",
            "startup",
            "-",
        ),
        (
            "/opt/venv/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so",
            "startup",
            "-",
        ),
        (
            "/opt/venv/lib/python3.11/site-packages/numpy/core/data.npz",
            "startup",
            "-",
        ),
        ("/dev/shm/torch_4242_12345_0", "ipc", "ipc"),
        ("/tmp/torchinductor_root/ab/cabc.py", "cache", "cache"),
    ]);
}

#[test]
fn checkpoints_that_are_compressed_or_set_aside() {
    sorts(&[
        ("/out/model.pkl.gz", "restore", "checkpoint"),
        ("/out/epoch_3.pt.gz", "restore", "checkpoint"),
        ("/out/net.pt.zst", "restore", "checkpoint"),
        ("/out/net.ckpt.gz", "restore", "checkpoint"),
        ("/out/net.safetensors.xz", "restore", "checkpoint"),
        ("/out/net.pt.bak", "restore", "checkpoint"),
        ("/out/net.ckpt.old", "restore", "checkpoint"),
        ("/out/net.pth.2", "restore", "checkpoint"),
        ("/out/net.prev.pt", "restore", "checkpoint"),
        ("/data/mnist.pkl.gz", "training", "checkpoint"),
        ("/out/report.txt.gz", "training", "other"),
        ("/out/report.bak", "other", "other"),
    ]);
}

#[test]
fn results_of_a_step_are_no_checkpoints() {
    sorts(&[
        ("/out/preds/epoch_0.npz", "-", "other"),
        ("/out/metrics/epoch_3.json", "-", "other"),
        ("/out/logs/step_100.txt", "-", "other"),
        ("/out/logits/step_3.pt", "-", "other"),
        ("/out/val_predictions.npz", "-", "other"),
        ("/out/history.pkl", "-", "other"),
        ("/out/epoch_3_metrics.pt", "-", "other"),
        ("/out/samples/step-100/grid.png", "-", "other"),
        ("/out/epoch_3/sample.wav", "-", "other"),
        ("/out/epoch_3/model.npz", "-", "checkpoint"),
        ("/out/epoch_0.npz", "-", "checkpoint"),
        ("/out/prehistory.pt", "restore", "checkpoint"),
        ("/out/logs/epoch_3.pt", "restore", "checkpoint"),
    ]);
}

#[test]
fn pytorch_distributed_checkpoint() {
    sorts(&[
        ("/out/step-100/__0_0.distcp", "restore", "checkpoint"),
        ("/out/step-100/__127_3.distcp", "restore", "checkpoint"),
        ("/out/step-100/.metadata", "restore", "checkpoint"),
        ("/out/step-100/.metadata.tmp", "-", "checkpoint"),
    ]);
}

#[test]
fn lightning() {
    sorts(&[
        ("/out/epoch=3-step=1200.ckpt", "restore", "checkpoint"),
        ("/out/epoch=3-step=1200.ckpt.tmp", "-", "checkpoint"),
        ("/out/epoch=3-step=1200.ckpt.part", "-", "checkpoint"),
        ("/out/last-v1.ckpt", "restore", "checkpoint"),
        ("/out/hpc_ckpt_3.ckpt", "restore", "checkpoint"),
        (
            "/out/lightning_logs/version_0/checkpoints/epoch=0-step=10.ckpt",
            "restore",
            "checkpoint",
        ),
        ("/out/lightning_logs/version_0/metrics.csv", "log", "log"),
        ("/out/lightning_logs/version_0/hparams.yaml", "log", "log"),
    ]);
}

#[test]
fn deepspeed() {
    sorts(&[
        (
            "/out/global_step500/mp_rank_00_model_states.pt",
            "restore",
            "checkpoint",
        ),
        (
            "/out/global_step500/zero_pp_rank_3_mp_rank_00_optim_states.pt",
            "restore",
            "checkpoint",
        ),
        (
            "/out/global_step500/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt",
            "restore",
            "checkpoint",
        ),
        (
            "/out/global_step500/layer_05-model_00-model_states.pt",
            "restore",
            "checkpoint",
        ),
        ("/out/latest", "restore", "checkpoint"),
        ("/out/zero_to_fp32.py", "-", "checkpoint"),
    ]);
}

#[test]
fn megatron() {
    sorts(&[
        (
            "/out/iter_0000100/mp_rank_00_001/model_optim_rng.pt",
            "restore",
            "checkpoint",
        ),
        (
            "/out/iter_0000100/mp_rank_00/distrib_optim.pt",
            "restore",
            "checkpoint",
        ),
        ("/out/iter_0000100/__0_1.distcp", "restore", "checkpoint"),
        (
            "/out/latest_checkpointed_iteration.txt",
            "restore",
            "checkpoint",
        ),
        ("/corpus/my_text_document.bin", "training", "-"),
        ("/corpus/my_text_document.idx", "training", "-"),
        (
            "/corpus/cache/x-GPTDataset-train-shuffle_index.npy",
            "training",
            "-",
        ),
    ]);
}

#[test]
fn hugging_face() {
    sorts(&[
        (
            "/out/checkpoint-500/model-00001-of-00004.safetensors",
            "restore",
            "checkpoint",
        ),
        (
            "/out/checkpoint-500/model.safetensors.index.json",
            "restore",
            "checkpoint",
        ),
        ("/out/checkpoint-500/optimizer.pt", "restore", "checkpoint"),
        (
            "/out/checkpoint-500/rng_state_3.pth",
            "restore",
            "checkpoint",
        ),
        (
            "/out/checkpoint-500/trainer_state.json",
            "restore",
            "checkpoint",
        ),
        (
            "/out/tmp-checkpoint-500/model.safetensors",
            "-",
            "checkpoint",
        ),
        ("/out/random_states_0.pkl", "restore", "checkpoint"),
        (
            "/models/llama/model-00001-of-00002.safetensors",
            "restore",
            "checkpoint",
        ),
        (
            "/models/llama/pytorch_model-00001-of-00002.bin",
            "restore",
            "checkpoint",
        ),
        ("/models/llama/tokenizer.json", "restore", "-"),
        (
            "/models/llama/adapter_model.safetensors",
            "restore",
            "checkpoint",
        ),
        (
            "/models/sd/unet/diffusion_pytorch_model.fp16.safetensors",
            "restore",
            "checkpoint",
        ),
        (
            "/home/u/.cache/huggingface/hub/models--gpt2/snapshots/ab/model.safetensors",
            "restore",
            "cache",
        ),
        (
            "/home/u/.cache/huggingface/datasets/imdb/plain/0.0.0/ab/imdb-train.arrow",
            "training",
            "cache",
        ),
        ("/data/cache-1a2b3c4d5e6f.arrow", "training", "cache"),
    ]);
}

#[test]
fn safetensors_read_is_a_load_and_written_is_a_save() {
    sorts(&[
        ("/anywhere/weights.safetensors", "restore", "checkpoint"),
        ("/anywhere/weights.safetensors.tmp3f9a", "-", "checkpoint"),
    ]);
}

#[test]
fn nemo() {
    sorts(&[
        ("/out/megatron_gpt.nemo", "restore", "checkpoint"),
        (
            "/out/gpt--val_loss=2.1-step=99-last/weights/__0_0.distcp",
            "restore",
            "checkpoint",
        ),
        (
            "/out/gpt--val_loss=2.1-step=99-last/context/io.json",
            "restore",
            "checkpoint",
        ),
    ]);
}

#[test]
fn tensorflow() {
    sorts(&[
        ("/out/ckpt-5.index", "restore", "checkpoint"),
        ("/out/ckpt-5.data-00000-of-00002", "restore", "checkpoint"),
        (
            "/out/ckpt-5_temp/part-00000-of-00001.data-00000-of-00001",
            "-",
            "checkpoint",
        ),
        ("/out/ckpt-5.index.tempstate123456", "-", "checkpoint"),
        ("/out/checkpoint", "restore", "checkpoint"),
        ("/out/checkpoint.tmp5d1f", "-", "checkpoint"),
        ("/export/1/saved_model.pb", "restore", "checkpoint"),
        (
            "/export/1/variables/variables.data-00000-of-00001",
            "restore",
            "checkpoint",
        ),
        ("/data/train-00001-of-01024", "training", "-"),
        ("/data/train.tfrecord-00001-of-00064", "training", "-"),
        ("/data/validation.tfrec", "training", "-"),
        (
            "/out/events.out.tfevents.1700000000.node1.42.0",
            "log",
            "log",
        ),
    ]);
}

#[test]
fn keras() {
    sorts(&[
        ("/out/model.keras", "restore", "checkpoint"),
        ("/out/latest.weights.h5", "restore", "checkpoint"),
        ("/out/training_metadata.json", "restore", "checkpoint"),
        (
            "/home/u/.keras/models/resnet50_weights.h5",
            "restore",
            "cache",
        ),
    ]);
}

#[test]
fn h5_is_data_where_read_and_weights_where_written_or_named_so() {
    sorts(&[
        ("/data/events_001.h5", "training", "checkpoint"),
        ("/out/weights.12.hdf5", "-", "checkpoint"),
        ("/out/model-best.h5", "restore", "checkpoint"),
        ("/out/checkpoints/model.h5", "restore", "checkpoint"),
    ]);
}

#[test]
fn orbax_and_flax() {
    sorts(&[
        (
            "/out/100.orbax-checkpoint-tmp/default/d/0f9e8d7c6b5a49382716051423324150",
            "-",
            "checkpoint",
        ),
        ("/out/100/default/manifest.ocdbt", "restore", "checkpoint"),
        (
            "/out/100/default/ocdbt.process_0/manifest.ocdbt",
            "restore",
            "checkpoint",
        ),
        (
            "/out/100/default/d/0f9e8d7c6b5a49382716051423324150",
            "restore",
            "checkpoint",
        ),
        ("/out/100/_CHECKPOINT_METADATA", "restore", "checkpoint"),
        ("/out/100/commit_success.txt", "restore", "checkpoint"),
        ("/out/params.msgpack", "restore", "checkpoint"),
        ("/data/part-0.array_record", "training", "cache"),
    ]);
}

#[test]
fn composer_and_streaming() {
    sorts(&[
        ("/out/ep3-ba1200-rank0.pt", "restore", "checkpoint"),
        ("/out/latest-rank12.pt", "restore", "checkpoint"),
        ("/data/shard.00012.mds", "training", "cache"),
        ("/data/shard.00012.mds.zstd", "training", "cache"),
        ("/data/index.json", "training", "-"),
        ("/data/chunk-0-12.bin", "training", "-"),
    ]);
}

#[test]
fn ultralytics() {
    sorts(&[
        (
            "/runs/detect/train/weights/last.pt",
            "restore",
            "checkpoint",
        ),
        (
            "/runs/detect/train/weights/epoch10.pt",
            "restore",
            "checkpoint",
        ),
        ("/runs/detect/train/results.csv", "log", "log"),
        ("/data/coco/labels/train2017.cache", "training", "cache"),
        (
            "/data/coco/labels/train2017/000000000009.txt",
            "training",
            "-",
        ),
    ]);
}

#[test]
fn what_a_job_makes_to_train_on_is_no_checkpoint() {
    sorts(&[
        ("/run/x/shuffled/epoch0.bin", "ipc", "ipc"),
        ("/out/shuffled/epoch0.bin", "training", "cache"),
        ("/out/preprocessed/data.pt", "training", "cache"),
        ("/out/iteration_3/games_07.npz", "training", "cache"),
        ("/out/iteration_3/model.npz", "restore", "checkpoint"),
        ("/out/index.pkl", "training", "cache"),
        ("/out/meta.pkl", "training", "cache"),
        ("/out/label_encoder.joblib", "training", "cache"),
        ("/out/vocab.pt", "training", "cache"),
        ("/out/checkpoint-500/scaler.pkl", "restore", "checkpoint"),
        ("/out/scaler.pt", "restore", "checkpoint"),
        ("/out/features.npz", "training", "cache"),
        ("/out/replay_3.npz", "training", "cache"),
        ("/out/replay_buffer.pkl", "training", "cache"),
        ("/out/openwebtext/train.bin", "training", "cache"),
        ("/out/tokens_00.bin", "training", "cache"),
        (
            "/out/checkpoint-500/replay_buffer.pkl",
            "restore",
            "checkpoint",
        ),
        ("/out/epoch0.bin", "restore", "checkpoint"),
        ("/data/user/out/x.bin", "training", "checkpoint"),
        ("/out/best_val.bin", "restore", "checkpoint"),
        ("/out/train.pt", "training", "checkpoint"),
        ("/out/trainable.bin", "restore", "checkpoint"),
        ("/out/rl_model_1000_steps.zip", "restore", "checkpoint"),
        ("/out/final.zip", "restore", "checkpoint"),
        ("/out/ppo_cartpole.zip", "restore", "checkpoint"),
        ("/out/sac.zip", "restore", "checkpoint"),
        ("/out/images.zip", "other", "other"),
    ]);
}

#[test]
fn archives_are_what_their_names_say() {
    sorts(&[
        ("/in/train.zip", "training", "other"),
        ("/in/data.zip", "training", "other"),
        ("/in/coco-train2017.zip", "training", "other"),
        ("/in/archive.zip", "other", "other"),
        ("/in/constrain.zip", "other", "other"),
        ("/in/samples.sqlite", "other", "other"),
        ("/out/checkpoint_3.tar", "restore", "checkpoint"),
        ("/out/model.tar", "restore", "checkpoint"),
        ("/opt/ml/model/model.tar.gz", "restore", "checkpoint"),
        ("/in/00012.tar", "training", "other"),
        ("/in/train.tar.gz", "training", "other"),
    ]);
}

#[test]
fn spacy_and_boosted_trees() {
    sorts(&[
        ("/out/model-best/ner/model", "restore", "checkpoint"),
        ("/out/model-last/vocab/vectors", "restore", "checkpoint"),
        ("/out/model-bestiary/x", "other", "other"),
        ("/corpus/train.spacy", "training", "-"),
        ("/out/xgb.ubj", "restore", "checkpoint"),
        ("/out/model.cbm", "restore", "checkpoint"),
        ("/out/model.txt", "restore", "checkpoint"),
        ("/out/model.txt.snapshot_iter_10", "restore", "checkpoint"),
        ("/in/model_cards.txt", "training", "other"),
        ("/in/binary.train", "training", "other"),
    ]);
}

#[test]
fn graphs_that_a_library_processed_are_data() {
    sorts(&[
        ("/in/Cora/processed/data.pt", "training", "cache"),
        (
            "/in/ogbn_arxiv/processed/geometric_data_processed.pt",
            "training",
            "cache",
        ),
        ("/home/u/.dgl/cora_v2/dgl_graph.bin", "training", "cache"),
        ("/out/unprocessed/model.pt", "restore", "checkpoint"),
    ]);
}

#[test]
fn nnunet() {
    let preprocessed = "/x/nnUNet_preprocessed/Dataset004/nnUNetPlans_3d_fullres";
    let results = "/x/nnUNet_results/Dataset004/fold_0";
    sorts(&[
        (&format!("{preprocessed}/case_001.b2nd"), "training", "-"),
        (
            &format!("{results}/checkpoint_final.pth"),
            "restore",
            "checkpoint",
        ),
        (&format!("{results}/validation/case_001.npz"), "-", "other"),
        (&format!("{results}/validation/case_001.pkl"), "-", "other"),
    ]);
}

#[test]
fn results_and_state_beside_checkpoints() {
    sorts(&[
        ("/out/evaluations.npz", "-", "other"),
        ("/out/inference/instances_predictions.pth", "-", "other"),
        ("/ray_results/exp/tuner.pkl", "-", "other"),
        (
            "/ray_results/exp/train_a1b2c_00000_0_lr=0.1_2026-11-29_20-45-10/params.pkl",
            "-",
            "other",
        ),
        ("/out/params.pkl", "-", "checkpoint"),
        ("/ray_results/exp/trial/progress.csv", "log", "log"),
        ("/out/final_model.zip", "restore", "checkpoint"),
        ("/out/last_checkpoint", "restore", "checkpoint"),
        (
            "/out/scheduler/scheduler_config.json",
            "restore",
            "checkpoint",
        ),
        ("/out/modules.json", "restore", "checkpoint"),
        (
            "/out/point_cloud/iteration_7000/point_cloud.ply",
            "restore",
            "checkpoint",
        ),
        ("/out/reiteration_1/point_cloud.ply", "training", "other"),
    ]);
}

#[test]
fn array_stores_are_models_if_they_are_named_so() {
    sorts(&[
        ("/out/model.zarr/layer0/0.0", "restore", "checkpoint"),
        ("/out/params.n5/attributes.json", "restore", "checkpoint"),
        ("/out/features.zarr/0.0", "training", "other"),
        ("/out/supermodel.zarr/0.0", "training", "other"),
    ]);
}

#[test]
fn formats_of_data_sets() {
    sorts(&[
        ("/data/part-00001.parquet", "training", "cache"),
        ("/data/_metadata", "training", "-"),
        ("/data/shard-000123.tar", "training", "-"),
        ("/data/x.beton", "training", "cache"),
        ("/data/imagenet_lmdb/data.mdb", "training", "cache"),
        ("/data/ds.lance/data/ab.lance", "training", "-"),
        ("/data/cells.h5ad", "training", "-"),
        ("/data/speech/feats.ark", "training", "-"),
        ("/data/lidar/n015.pcd.bin", "training", "-"),
        ("/data/alignments/hits.a3m", "training", "-"),
        ("/data/squad/train-v2.0.json", "training", "-"),
        ("/data/x.zarr/c/0/1/2", "training", "-"),
        ("/data/x.zarr/.zarray", "training", "-"),
        ("/data/era5/2020.nc", "training", "-"),
        ("/data/x/features.npy", "training", "-"),
        ("/data/cifar-10-batches-py/data_batch_3", "training", "-"),
        (
            "/data/MNIST/raw/train-images-idx3-ubyte.gz",
            "training",
            "-",
        ),
        ("/data/tokens/train.bin", "training", "-"),
        ("/data/speech/84-121123-0000.flac", "training", "-"),
        ("/data/clips/a.MP4", "training", "-"),
        ("/data/pile/00.jsonl.zst", "training", "-"),
        ("/data/c4/c4-train.00000-of-01024.json.gz", "training", "-"),
        ("/data/brain/sub-01_T1w.nii.gz", "training", "-"),
    ]);
}

#[test]
fn python_conda_cuda_and_the_linker() {
    sorts(&[
        ("/opt/conda/lib/libstdc++.so.6", "startup", "-"),
        (
            "/home/u/miniconda3/envs/ml/lib/python3.11/json/__init__.py",
            "startup",
            "-",
        ),
        (
            "/home/u/.local/lib/python3.11/site-packages/x.py",
            "startup",
            "-",
        ),
        ("/etc/ld.so.cache", "startup", "-"),
        ("/usr/local/cuda-12.4/lib64/libcublas.so.12", "startup", "-"),
        ("/home/u/train.py", "startup", "-"),
        (
            "/home/u/pkg/__pycache__/a.cpython-311.pyc",
            "startup",
            "cache",
        ),
        (
            "/home/u/pkg/__pycache__/a.cpython-311.pyc.140123",
            "-",
            "cache",
        ),
        ("/proc/cpuinfo", "system", "system"),
        ("/sys/devices/system/cpu/online", "system", "system"),
    ]);
}

#[test]
fn names_that_sound_like_models() {
    sorts(&[
        ("/data/checkpoint_inhibitors/3.png", "training", "-"),
        ("/out/checkpoint-100/optimizer.pt", "restore", "checkpoint"),
        ("/w/pretrained/ViT-B_16.npz", "restore", "-"),
        ("/data/shapenet/models/chair.obj", "training", "-"),
        ("/w/pretrain/part-000.parquet", "training", "-"),
        ("/w/pretrain/train.bin", "training", "cache"),
        ("/w/epoch_0/000012.tar", "training", "-"),
        ("/w/epoch_0/model.tar", "restore", "checkpoint"),
        ("/out/features/s000.pt", "-", "other"),
        ("/out/results.pkl", "-", "other"),
        ("/out/val_detections.pkl", "-", "other"),
        ("/out/clip_feats.pt", "-", "other"),
        ("/out/train_loss.pt", "-", "other"),
        ("/out/best_loss.pth", "restore", "checkpoint"),
        ("/out/model_acc_0.93.pt", "-", "checkpoint"),
        ("/out/activations.h5", "-", "other"),
        ("/out/training_states/500.state", "restore", "checkpoint"),
        ("/out/model.torchscript", "-", "checkpoint"),
        ("/out/ema_state_dict", "-", "checkpoint"),
    ]);
}

#[test]
fn caches_and_logs() {
    sorts(&[
        ("/home/u/.triton/cache/ab/kernel.cubin", "cache", "cache"),
        ("/home/u/.nv/ComputeCache/1/2/abc", "cache", "cache"),
        ("/home/u/.cache/matplotlib/fontlist-v330.json", "-", "cache"),
        (
            "/out/wandb/run-20250101_000000-abcdefgh/run-abcdefgh.wandb",
            "log",
            "log",
        ),
        ("/out/mlruns/0/abc/params/lr", "log", "log"),
        ("/out/wandb/run-1/files/config.yaml", "log", "log"),
        (
            "/out/wandb/run-1/files/model-best.pt",
            "restore",
            "checkpoint",
        ),
        (
            "/out/mlruns/0/abc/artifacts/epoch.ckpt",
            "restore",
            "checkpoint",
        ),
        ("/out/slurm-123.out", "log", "log"),
        ("/out/trace.json.gz", "log", "log"),
    ]);
}
