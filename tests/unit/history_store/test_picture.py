import io

import numpy as np
import pytest
from PIL import Image, UnidentifiedImageError

from warmstart.history_store.errors import DataError
from warmstart.history_store.picture import decode, opaque, plain, square_arrays, to_uint8


def saved(picture, kind="PNG", **options):
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    buffer.seek(0)
    return buffer


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([0, 128, 255], np.uint8), [0, 128, 255]),
        (np.array([False, True]), [0, 255]),
        (np.array([0, 128, 129, 257, 65535], np.uint16), [0, 0, 1, 1, 255]),  # 128/257 < 0.5 < 129/257
        (np.array([0, 257, 65535], ">u2"), [0, 1, 255]),
        (np.array([0.0, 0.5, 1.0]), [0, 128, 255]),
        (np.array([0.0, 1.0], np.float16), [0, 255]),
    ],
)
def test_pixel_values(values, expected):
    got = to_uint8(values)
    assert got.dtype == np.uint8
    assert got.tolist() == expected


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0.0, 1.5], "expected floats in .0, 1., got minimum 0 and maximum 1.5. Scale them"),
        ([0.0, 1.00001], "maximum 1.00001. Scale"),
        ([-0.25, 1.0], "minimum -0.25 and maximum 1"),
        ([0.0, float("inf")], "minimum 0 and maximum inf"),
        ([0.5, float("nan"), 0.75], r"got 1 NaN \(the others between 0.5 and 0.75\)"),
        ([float("nan")] * 2, r"got 2 NaN \(no finite value\)"),
        ([1, 2], "expected uint8, uint16, bool or floats in .0, 1., got dtype int64"),
    ],
)
def test_refuses_pixel_values(values, message):
    with pytest.raises(DataError, match=message):
        to_uint8(np.array(values), "x")


def test_arrays_are_squared_bit_for_bit_as_recorded():
    # Histories were measured on these pixels: they may not change.
    images = (np.arange(2 * 9 * 7 * 3, dtype=np.int64) * 37 % 256).astype(np.uint8).reshape(2, 9, 7, 3)
    assert square_arrays(images, 3).ravel().tolist() == [
        107, 79, 134, 169, 131, 88, 119, 177, 157, 82, 115, 158, 136, 95, 123, 157, 157, 101,
        88, 143, 161, 122, 96, 149, 176, 144, 91, 140, 157, 98, 98, 144, 154, 143, 95, 134,
        164, 80, 121, 135, 166, 85, 76, 122, 170, 169, 107, 146, 155, 129, 103, 104, 145, 129,
    ]  # fmt: skip


def test_shrinking_is_antialiased():
    stripes = np.tile(np.array([0, 255], np.uint8), (64, 32))[np.newaxis, ..., np.newaxis]
    small = square_arrays(stripes, 8)
    assert np.abs(small.astype(int) - 127).max() < 30  # taking every eighth pixel would give all 0 or all 255


GREY = np.array([[0, 100], [200, 255]], np.uint8)
COLOUR = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [10, 20, 30]]], np.uint8)


@pytest.mark.parametrize(
    ("picture", "expected"),
    [
        (Image.fromarray(GREY), GREY),
        (Image.fromarray(COLOUR), COLOUR),
        (Image.fromarray(GREY > 150), np.where(GREY > 150, 255, 0)),
        (Image.fromarray(GREY.astype(np.uint16) * 257), GREY),
        (Image.fromarray(GREY.astype(np.int32) * 257), GREY),
        (Image.fromarray(GREY.astype(np.float32) / 255), GREY),
        (Image.fromarray(COLOUR).quantize(4), COLOUR),
        (Image.fromarray(COLOUR).convert("RGBA"), COLOUR),
        (Image.fromarray(GREY).convert("LA"), GREY),
    ],
    ids=["L", "RGB", "1", "I;16", "I", "F", "P", "RGBA", "LA"],
)
def test_modes(picture, expected):
    np.testing.assert_array_equal(np.asarray(plain(picture)), expected)


@pytest.mark.parametrize("mode", ["CMYK", "YCbCr", "HSV"])
def test_other_colour_spaces_become_rgb(mode):
    got = plain(Image.new("RGB", (3, 2), (200, 60, 20)).convert(mode))
    assert got.mode == plain(Image.new("LAB", (3, 2))).mode == "RGB"
    assert np.abs(np.asarray(got)[0, 0].astype(int) - [200, 60, 20]).max() <= 4


def test_transparency_lies_on_white():
    clear = np.dstack([COLOUR, np.array([[0, 255], [128, 0]], np.uint8)])
    expected = [[[255, 255, 255], [0, 255, 0]], [[127, 127, 255], [255, 255, 255]]]
    np.testing.assert_array_equal(np.asarray(plain(Image.fromarray(clear))), expected)
    np.testing.assert_array_equal(opaque(clear[np.newaxis])[0], expected)
    two = np.dstack([GREY, np.array([[0, 255], [0, 255]], np.uint8)])
    np.testing.assert_array_equal(np.asarray(plain(Image.fromarray(two))), [[255, 100], [255, 255]])


@pytest.mark.parametrize(("kind", "orientation"), [("JPEG", 1), ("PNG", 3), ("TIFF", 6), ("WEBP", 8)])
def test_exif_turns_the_picture(kind, orientation):
    upright = np.zeros((16, 16, 3), np.uint8)
    upright[:8, :8] = 255  # a white quarter at the top left
    turns = {1: 0, 3: 2, 6: 1, 8: 3}[orientation]  # how often the stored picture was turned to the left
    exif = Image.Exif()
    exif[0x0112] = orientation
    lossless = {"lossless": True} if kind == "WEBP" else {}
    file = saved(Image.fromarray(np.rot90(upright, turns)), kind, exif=exif, **lossless)
    assert np.abs(decode(file, 16).astype(int) - upright).max() < 12


def test_formats_that_run_programs_stay_shut():

    with pytest.raises(UnidentifiedImageError):
        decode(io.BytesIO(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"), 8)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "BMP", "PPM", "TIFF", "WEBP", "TGA", "JPEG2000"])
def test_formats(kind):
    smooth = np.add.outer(np.arange(16), np.arange(16)).astype(np.uint8) * 8
    got = decode(saved(Image.fromarray(smooth).convert("RGB"), kind), 16)
    assert np.abs(got.reshape(16, 16, -1).astype(int) - smooth[..., np.newaxis]).max() < 12
