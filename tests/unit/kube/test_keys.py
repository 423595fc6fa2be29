"""Keys of objects: made, and read back."""

import msgspec
import pytest

from tidewright.kube.keys import PodKey, key_of, name_of, namespace_of, parts, pod_key, request_key


@pytest.mark.parametrize("name", ["web", "web.example", "", "a/b"])
def test_a_key_is_read_back_exactly(name: str) -> None:
    key = key_of("shop", name)
    assert parts(key) == ("shop", name)
    assert (namespace_of(key), name_of(key)) == ("shop", name)


def test_keys_are_stored_as_their_text() -> None:
    stored = msgspec.json.encode({pod_key("shop", "web"): request_key("shop", "gang")})
    assert stored == b'{"shop/web":"shop/gang"}'
    assert msgspec.json.decode(stored, type=dict[PodKey, str]) == {pod_key("shop", "web"): "shop/gang"}
