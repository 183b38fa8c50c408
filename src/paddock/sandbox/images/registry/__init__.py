"""A client of container registries: manifests, blobs that resume, credentials. Only asks; never pushes."""

from paddock.sandbox.images.registry.blobs import BlobCache, Descriptor
from paddock.sandbox.images.registry.client import Registry, RegistryOptions
from paddock.sandbox.images.registry.credentials import Credentials, find_credentials
from paddock.sandbox.images.registry.manifest import ImageManifest, fetch_manifest
from paddock.sandbox.images.registry.retry import Backoff

__all__ = [
    "Backoff",
    "BlobCache",
    "Credentials",
    "Descriptor",
    "ImageManifest",
    "Registry",
    "RegistryOptions",
    "fetch_manifest",
    "find_credentials",
]
