import pytest

from estimator.cli.chart import draw


@pytest.mark.parametrize("braille", [True, False])
@pytest.mark.parametrize("width", [20, 80, 120])
@pytest.mark.parametrize("values", [[3.0], [3.0, 3.0], [0.0, 0.0], [1.0, 9.0, 2.0], [-1e9, 1e9]])
def test_lines_fit_the_width_and_carry_the_scale(
    braille: bool, width: int, values: list[float]
) -> None:
    lines = draw(range(len(values)), values, width=width, braille=braille).split("\n")
    assert len(lines) == 6
    assert all(len(line) <= width for line in lines)
    top, bottom = (float(lines[row].split("│" if braille else "|")[0]) for row in (0, -1))
    assert top > max(values) > bottom or top > min(values) > bottom


def test_a_rise_goes_from_the_lower_left_to_the_upper_right() -> None:
    lines = draw(range(50), [float(n) for n in range(50)], width=60, braille=False).split("\n")
    bodies = [line.split("|", 1)[1] for line in lines]
    first = [body.index("*") for body in bodies]
    assert first == sorted(first, reverse=True)
    assert first[-1] == 0


def test_a_jump_is_drawn_as_an_unbroken_line() -> None:
    lines = draw([0.0, 5.0, 5.1, 10.0], [1.0, 1.0, 9.0, 9.0], width=60, braille=True).split("\n")
    bodies = [line.split("│", 1)[1] for line in lines]
    assert all(body.strip() for body in bodies)


def test_points_of_one_moment_are_no_division_by_zero() -> None:
    assert draw([7.0, 7.0], [1.0, 2.0], width=40, braille=True)
