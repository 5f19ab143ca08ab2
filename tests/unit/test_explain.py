from forkwheel.explain import Explanation

LONG = "x" * 100


def explanation(*rows: tuple[str, str, str, str], against: str | None = "last build") -> Explanation:
    return Explanation("demo", "1.0", "ab" * 32, against, rows)


def test_what_changed_is_shown_whole_and_the_rest_cut_short() -> None:
    item = explanation(("a", LONG, LONG, ""), ("b", LONG, "ab" * 32, "changed"), ("c", "ab" * 32, "-", ""))

    assert item.changes() == [f"b: {LONG}, was {'ab' * 6}"]
    assert item.others() == [("a", "x" * 59 + "…"), ("c", "ab" * 6)]
    assert item.document()["parts"][0]["value"] == LONG


def test_without_anything_to_compare_with_nothing_changed() -> None:
    item = explanation(("a", "1", "-", ""), against=None)

    assert (item.changes(), item.others()) == ([], [("a", "1")])
