"""`torch.utils.tensorboard`: event files, written by the package `tensorboard`."""

from __future__ import annotations

import io
import os
import socket
import time
from typing import Any

import numpy as np

from ...dispatch.call_errors import warn_caller
from ...tensor.tensor import Tensor

try:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
except ImportError as error:
    raise ImportError("torch.utils.tensorboard needs the package tensorboard; install it") from error

__all__ = ["SummaryWriter"]


def _array(value: Any) -> np.ndarray:
    return np.asarray(value.detach().numpy() if isinstance(value, Tensor) else value)


class SummaryWriter:
    """Writes scalars, histograms, images, figures and texts to an event file in a folder.

    The folder is by default runs/<date>_<host><comment>. Graphs and embeddings are not written, with a warning.
    """

    def __init__(
        self, log_dir: Any = None, comment: str = "", purge_step: int | None = None, max_queue: int = 10,
        flush_secs: int = 120, filename_suffix: str = "",
    ) -> None:  # fmt: skip
        date = time.strftime("%b%d_%H-%M-%S")
        self.log_dir = os.fspath(log_dir or os.path.join("runs", f"{date}_{socket.gethostname()}{comment}"))
        self._options = (max_queue, flush_secs, filename_suffix)
        self._writers: dict[str, Any] = {}
        self._write(self.log_dir, Summary(), purge_step, None)

    def _write(self, folder: str, summary: Any, step: int | None, walltime: float | None) -> None:
        if folder not in self._writers:
            self._writers[folder] = EventFileWriter(folder, *self._options)
        event = Event(summary=summary, wall_time=time.time() if walltime is None else walltime, step=int(step or 0))
        self._writers[folder].add_event(event)

    def _add(self, step: int | None, walltime: float | None, **value: Any) -> None:
        self._write(self.log_dir, Summary(value=[Summary.Value(**value)]), step, walltime)

    def get_logdir(self) -> str:
        """The folder of the event file."""
        return self.log_dir

    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: int | None = None, walltime: float | None = None,
        new_style: bool = False, double_precision: bool = False,
    ) -> None:  # fmt: skip
        """Write one number."""
        self._add(global_step, walltime, tag=tag, simple_value=float(scalar_value))

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: dict[str, Any], global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Write a number for each tag, in a folder of its own, so that they share a plot."""
        for tag, number in tag_scalar_dict.items():
            folder = f"{self.log_dir}/{main_tag.replace('/', '_')}_{tag}"
            summary = Summary(value=[Summary.Value(tag=main_tag, simple_value=float(number))])
            self._write(folder, summary, global_step, walltime)

    def add_histogram(
        self, tag: str, values: Any, global_step: int | None = None, bins: Any = 64, walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:  # fmt: skip
        """Write how many values lie in each of `bins` equal intervals, or between given edges."""
        flat = _array(values).astype(np.float64).reshape(-1)
        if not flat.size:
            raise ValueError("add_histogram(): values must not be empty")
        counts, edges = np.histogram(flat, bins if not isinstance(bins, str) else 64)
        histogram = HistogramProto(
            min=flat.min(), max=flat.max(), num=flat.size, sum=flat.sum(), sum_squares=flat @ flat,
            bucket_limit=edges[1:].tolist(), bucket=counts.tolist(),
        )  # fmt: skip
        self._add(global_step, walltime, tag=tag, histo=histogram)

    def add_image(
        self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:  # fmt: skip
        """Write an image, of bytes or of numbers from 0 to 1; `dataformats` names its dimensions, as "HWC" or "HW"."""
        from PIL import Image

        array = _array(img_tensor)
        if array.ndim != len(dataformats):
            raise ValueError(f"add_image(): img_tensor must have dimensions {dataformats}, got shape {array.shape}")
        if "C" in dataformats:
            array = array.transpose([dataformats.index(each) for each in "HWC"])
        pixels = array if array.dtype == np.uint8 else (np.clip(array, 0, 1) * 255).astype(np.uint8)
        pixels = pixels[..., 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, format="png")
        height, width = pixels.shape[:2]
        image = Summary.Image(
            height=height, width=width, colorspace=3 if pixels.ndim == 3 else 1, encoded_image_string=file.getvalue()
        )
        self._add(global_step, walltime, tag=tag, image=image)

    def add_images(
        self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:  # fmt: skip
        """Write a batch of images side by side."""
        array = _array(img_tensor)
        array = array.transpose([dataformats.index(each) for each in "NHWC"])
        self.add_image(tag, np.concatenate(list(array), 1), global_step, walltime, "HWC")

    def add_figure(
        self, tag: str, figure: Any, global_step: int | None = None, close: bool = True, walltime: float | None = None
    ) -> None:
        """Write a figure of matplotlib, or several, as an image each."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        for number, each in enumerate(figures := figure if isinstance(figure, list) else [figure]):
            canvas = FigureCanvasAgg(each)
            canvas.draw()
            name = tag if len(figures) == 1 else f"{tag}/{number}"
            self.add_image(name, np.asarray(canvas.buffer_rgba())[..., :3], global_step, walltime, "HWC")
            if close:
                from matplotlib import pyplot as plt

                plt.close(each)

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Write a text."""
        metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
        tensor = TensorProto(dtype="DT_STRING", string_val=[text_string.encode()])
        tensor.tensor_shape.dim.add().size = 1
        self._add(global_step, walltime, tag=f"{tag}/text_summary", metadata=metadata, tensor=tensor)

    def add_hparams(
        self, hparam_dict: dict[str, Any], metric_dict: dict[str, Any], hparam_domain_discrete: Any = None,
        run_name: str | None = None, global_step: int | None = None,
    ) -> None:  # fmt: skip
        """Write the metrics as scalars, and the parameters as a text."""
        self.add_text("hparams", "\n".join(f"{name}: {value}" for name, value in hparam_dict.items()), global_step)
        for name, value in metric_dict.items():
            self.add_scalar(name, value, global_step)

    def add_graph(self, model: Any, input_to_model: Any = None, verbose: bool = False, **options: Any) -> None:
        """Warn that no graph is written: programs are not traced."""
        warn_caller("add_graph(): programs are not traced, and no graph is written")

    def add_embedding(self, mat: Any, *args: Any, **options: Any) -> None:
        """Warn that no embedding is written."""
        warn_caller("add_embedding(): embeddings are not written")

    def flush(self) -> None:
        """Write what waits to the files."""
        for each in self._writers.values():
            each.flush()

    def close(self) -> None:
        """Write what waits, and close the files."""
        for each in self._writers.values():
            each.close()
        self._writers.clear()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
