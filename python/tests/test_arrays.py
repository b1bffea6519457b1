"""Datasets and checkpoints as arrays over mapped files."""

from __future__ import annotations

import gc
import json
import os
import pathlib
import threading
import unittest
import weakref
from typing import Any, List

import phalanx

from .support import HAS_NUMPY, dataset_prefix, folder, needs_numpy, saving, tiny, trained_run

if HAS_NUMPY:
    import numpy as np


def file_at(address: int) -> str:
    """The file that is mapped at an address."""
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        parts = line.split(maxsplit=5)
        begin, end = (int(bound, 16) for bound in parts[0].split("-"))
        if begin <= address < end and len(parts) == 6:
            return parts[5]
    return ""


@needs_numpy
class Datasets(unittest.TestCase):
    def test_is_a_sequence_of_arrays(self) -> None:
        dataset = phalanx.Dataset(dataset_prefix())
        info = phalanx.command("dataset info", dataset_prefix(), json=True).json()
        self.assertEqual(len(dataset), info["sequences"])
        self.assertEqual((dataset.documents, dataset.tokens), (info["documents"], info["tokens"]))
        self.assertEqual(sum(len(sequence) for sequence in dataset), dataset.tokens)
        flat = np.fromfile(dataset_prefix() + ".bin", np.uint16)
        self.assertEqual(dataset.dtype, "u16")
        np.testing.assert_array_equal(np.concatenate(list(dataset)), flat)
        np.testing.assert_array_equal(dataset[-1], dataset[len(dataset) - 1])
        np.testing.assert_array_equal(np.concatenate(dataset[1:3]), flat[len(dataset[0]) :][
            : len(dataset[1]) + len(dataset[2])
        ])
        for index in (len(dataset), -len(dataset) - 1):
            with self.assertRaises(IndexError):
                dataset[index]

    def test_nothing_is_copied_or_writable(self) -> None:
        dataset = phalanx.Dataset(dataset_prefix())
        sequence = dataset[0]
        self.assertEqual(sequence.ctypes.data, dataset[0].ctypes.data)
        self.assertEqual(file_at(sequence.ctypes.data), dataset_prefix() + ".bin")
        with self.assertRaises(ValueError):
            sequence[0] = 1
        with self.assertRaises(ValueError):
            sequence.flags.writeable = True

    def test_arrays_keep_the_dataset_open(self) -> None:
        dataset = phalanx.Dataset(dataset_prefix())
        handle = weakref.ref(dataset._handle)
        part = dataset[0][1:]
        expected = part.tolist()
        dataset.close()
        self.assertTrue(dataset.closed)
        with self.assertRaisesRegex(ValueError, "this Dataset is closed"):
            dataset[0]
        del dataset
        gc.collect()
        self.assertEqual(part.tolist(), expected)
        self.assertIsNotNone(handle())
        del part
        gc.collect()
        self.assertIsNone(handle())
        self.assertNotIn(dataset_prefix(), pathlib.Path("/proc/self/maps").read_text())

    def test_threads_share_one(self) -> None:
        dataset = phalanx.Dataset(dataset_prefix())
        sums: List[int] = []
        threads = [
            threading.Thread(target=lambda: sums.append(sum(int(s.sum()) for s in dataset)))
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(sums), 2)
        self.assertEqual(sums[0], sums[1])

    def test_with(self) -> None:
        with phalanx.Dataset(dataset_prefix()) as dataset:
            self.assertGreater(len(dataset[0]), 0)
        self.assertTrue(dataset.closed)


@needs_numpy
class Checkpoints(unittest.TestCase):
    def tensor_of_file(self, checkpoint: phalanx.Checkpoint, name: str) -> Any:
        """As the format of safetensors says."""
        for file in pathlib.Path(checkpoint.directory).glob("*.safetensors"):
            data = file.read_bytes()
            size = int.from_bytes(data[:8], "little")
            entry = json.loads(data[8 : 8 + size]).get(name)
            if entry is not None:
                break
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        self.assertEqual(entry["dtype"], "F32")
        return np.frombuffer(data[begin:end], np.float32).reshape(entry["shape"])

    def test_is_a_mapping_of_arrays(self) -> None:
        checkpoint = phalanx.Checkpoint(trained_run())
        self.assertEqual(checkpoint.iteration, 4)
        with open(os.path.join(checkpoint.directory, "manifest.json"), encoding="utf-8") as file:
            manifest = json.load(file)
        del manifest["tensors"]
        self.assertEqual(checkpoint.manifest, manifest)
        self.assertGreater(len(checkpoint), 3)
        for name, array in checkpoint.items():
            self.assertEqual(list(array.shape), checkpoint.tensors[name]["shape"])
            np.testing.assert_array_equal(array, self.tensor_of_file(checkpoint, name))
            np.testing.assert_array_equal(checkpoint.to_float32(name), array)
        self.assertNotIn("nothing", checkpoint)
        with self.assertRaises(KeyError):
            checkpoint["nothing"]

    def test_nothing_is_copied_or_writable(self) -> None:
        checkpoint = phalanx.Checkpoint(trained_run())
        array = checkpoint[next(iter(checkpoint))]
        self.assertTrue(file_at(array.ctypes.data).startswith(checkpoint.directory))
        with self.assertRaises(ValueError):
            array.flags.writeable = True
        copy = checkpoint.to_float32(next(iter(checkpoint)))
        copy[...] = 0  # its own
        checkpoint.close()
        self.assertGreater(float(np.abs(array).sum()), 0)
        with self.assertRaisesRegex(ValueError, "this Checkpoint is closed"):
            checkpoint["nothing"]

    def test_bf16(self) -> None:
        save = str(folder() / "run_bf16")
        phalanx.pretrain("gpt", **tiny(**saving(save), bf16=True, train_iters=1))
        stored = phalanx.Checkpoint(save)
        if all(tensor["dtype"] == "f32" for tensor in stored.tensors.values()):
            self.skipTest("checkpoints of bf16 runs have fp32 weights")
        name = next(name for name, one in stored.tensors.items() if one["dtype"] == "bf16")
        self.assertEqual(stored[name].dtype, np.uint16)
        widened = stored.to_float32(name)
        np.testing.assert_array_equal(widened.view(np.uint32) >> 16, stored[name])
        self.assertTrue(np.isfinite(widened).all())
