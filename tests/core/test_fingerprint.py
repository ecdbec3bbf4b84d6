"""What makes two requests the same one, and what never does."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock.core.fingerprint import Fingerprints, maker
from penstock.types import Request

PLAIN = Request("k1", "m", b'"x"', 0.0, 1.0, 1.0, parameters=b'{"a":1}', tenant="acme")
OF_TENANTS = Fingerprints("m", "v1", shared=False)
OF_ALL = Fingerprints("m", "v1", shared=True)


def test_who_asks_when_and_how_urgently_makes_no_difference() -> None:
    other = replace(PLAIN, key="k2", arrival=5.0, deadline=9.0, tier=2, request_id="mine", traceparent="t")
    assert OF_TENANTS.of(other) == OF_TENANTS.of(PLAIN)
    assert len(OF_TENANTS.of(PLAIN)) == 32


def test_input_parameters_version_model_scope_and_tenant_each_make_another() -> None:
    different = [
        OF_TENANTS.of(PLAIN),
        OF_TENANTS.of(replace(PLAIN, input=b'"y"')),
        OF_TENANTS.of(replace(PLAIN, parameters=b"")),
        OF_TENANTS.of(replace(PLAIN, tenant="beta")),
        OF_TENANTS.of(replace(PLAIN, tenant="")),
        Fingerprints("m", "v2", shared=False).of(PLAIN),
        Fingerprints("n", "v1", shared=False).of(PLAIN),
        OF_ALL.of(PLAIN),
    ]
    assert len(set(different)) == len(different)


def test_in_the_shared_scope_tenants_have_it_in_common() -> None:
    assert OF_ALL.of(PLAIN) == OF_ALL.of(replace(PLAIN, tenant="beta"))
    assert maker("acme") != maker("beta")


PARTS = st.tuples(st.text(max_size=4), st.text(max_size=4), st.text(max_size=4), st.binary(max_size=4))


@given(PARTS, PARTS)
def test_no_two_lists_of_parts_run_together(one: tuple[str, ...], two: tuple[str, ...]) -> None:
    def of(parts: tuple[str, ...]) -> bytes:
        model, version, tenant, text = parts
        request = Request("k", model, text, 0.0, 1.0, 1.0, tenant=tenant)  # type: ignore[arg-type]
        return Fingerprints(model, version, shared=False).of(request)

    assert (of(one) == of(two)) == (one == two)
