"""Packages of the distribution: `minitorch_backends`, with the top-level folder `kernels` as one of its subpackages."""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=["minitorch_backends", "minitorch_backends.*"]),
        *(f"minitorch_backends.{name}" for name in find_packages(include=["kernels", "kernels.*"])),
    ],
    package_dir={"minitorch_backends.kernels": "kernels"},
    package_data={"minitorch_backends": ["py.typed"]},
)
