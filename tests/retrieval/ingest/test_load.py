"""Which files are found, what becomes of each format, and what is said of a file that cannot be read."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from retrieval.errors import Unreadable
from retrieval.ingest.formats.decode import EMPTY
from retrieval.ingest.formats.registry import holds_text
from retrieval.ingest.load import FileCandidate, content_hash, find, load, parse, read
from retrieval.records.documents import Document
from retrieval.records.ingest import Failure
from tests.support.rows import all_rows

MEGABYTE = 1_000_000


def document(data: str | bytes, name: str = "guide.md") -> Document:
    return parse(data.encode() if isinstance(data, str) else data, Path("/docs") / name, f"docs/{name}", 12.5)


def reason(data: str | bytes, name: str = "guide.md") -> str:
    with pytest.raises(Unreadable) as caught:
        document(data, name)
    return str(caught.value)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """docs/ with a few files of every sort."""
    root = tmp_path / "docs"
    (root / "api" / "deep").mkdir(parents=True)
    (root / ".git").mkdir()
    for name in (
        "b.md",
        "a.txt",
        "api/z.rst",
        "api/deep/c.HTML",
        ".git/config.md",
        ".hidden.md",
        "x.gif",
        "y.gif",
        "LICENSE",
    ):
        (root / name).write_text("text")
    return root


@contextmanager
def without_rights() -> Iterator[None]:
    """Runs as a user who owns nothing: root may read everything, whatever a file's mode says."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that any user can reach, unlike pytest's own."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    for inner in path.rglob("*"):
        inner.chmod(0o755)
    shutil.rmtree(path)


# Finding


def test_finds_the_supported_files_of_a_folder_in_order(folder: Path) -> None:
    found = find([folder], max_bytes=MEGABYTE)
    assert [candidate.source for candidate in found.candidates] == [
        "docs/a.txt",
        "docs/api/deep/c.HTML",
        "docs/api/z.rst",
        "docs/b.md",
    ]
    assert found.candidates[0].path == (folder / "a.txt").resolve()
    assert found.failures == ()


def test_counts_what_it_passes_over_by_reason(folder: Path) -> None:
    found = find([folder], max_bytes=MEGABYTE)
    assert found.skipped == {"unsupported type (no extension)": 1, "unsupported type .gif": 2}


def test_leaves_out_what_other_people_wrote_and_what_was_made_of_code(tmp_path: Path) -> None:
    for name in ("node_modules/a/readme.md", "net/__pycache__/b.py", "net/c.py", "d.min.js", "e-min.mjs", "f.js"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n", "utf-8")
    found = find([tmp_path], max_bytes=MEGABYTE)
    assert [candidate.path.name for candidate in found.candidates] == ["f.js", "c.py"]
    assert found.skipped == {"minified code": 2}


def test_json_is_taken_where_it_holds_questions_and_answers(tmp_path: Path) -> None:
    (tmp_path / "faq.jsonl").write_text('{"question": "Who?", "answer": "You."}\n', "utf-8")
    (tmp_path / "package.json").write_text('{"name": "x"}\n', "utf-8")
    found = find([tmp_path], max_bytes=MEGABYTE)
    assert [candidate.path.name for candidate in found.candidates] == ["faq.jsonl"]
    assert found.skipped == {"JSON without text": 1}


def test_code_is_titled_by_its_folder_and_name(tmp_path: Path) -> None:
    (tmp_path / "pool.py").write_text("x = 1\n", "utf-8")
    document = load(tmp_path / "pool.py", "src/net/pool.py", max_bytes=MEGABYTE)
    assert (document.title, document.format, document.text) == ("net/pool.py", "code", "x = 1\n")


def test_json_is_read_as_its_questions_and_answers(tmp_path: Path) -> None:
    (tmp_path / "shop_faq.json").write_text('[{"question": "Who?", "answer": "You."}]', "utf-8")
    document = load(tmp_path / "shop_faq.json", "shop_faq.json", max_bytes=MEGABYTE)
    assert (document.title, document.format, document.text) == ("Shop faq", "text", "Q: Who?\nA: You.\n")


def test_a_table_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text("name,price\nlamp,1\n", "utf-8")
    document = load(tmp_path / "prices.csv", "prices.csv", max_bytes=MEGABYTE)
    assert (document.title, document.format, document.text) == ("Prices", "csv", "name,price\nlamp,1\n")


def test_names_a_folder_given_as_a_dot(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert find([Path()], max_bytes=MEGABYTE).candidates[0].source == "docs/a.txt"


def test_a_single_file_is_shown_by_its_name(folder: Path) -> None:
    (only,) = find([folder / "api" / "z.rst"], max_bytes=MEGABYTE).candidates
    assert only == FileCandidate((folder / "api" / "z.rst").resolve(), "z.rst")


def test_a_hidden_file_is_found_when_it_is_named(folder: Path) -> None:
    (only,) = find([folder / ".hidden.md"], max_bytes=MEGABYTE).candidates
    assert only.source == ".hidden.md"


def test_a_file_is_found_once_however_often_it_is_reached(folder: Path) -> None:
    (folder / "link.md").symlink_to(folder / "b.md")
    found = find([folder, folder / "b.md", folder / "api", folder], max_bytes=MEGABYTE)
    assert [candidate.path.name for candidate in found.candidates] == ["a.txt", "c.HTML", "z.rst", "b.md"]


def test_does_not_follow_linked_folders(folder: Path) -> None:
    (folder / "api" / "loop").symlink_to(folder)
    assert len(find([folder], max_bytes=MEGABYTE).candidates) == 4


def test_follows_a_linked_folder_that_is_named(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    assert len(find([tmp_path / "link"], max_bytes=MEGABYTE).candidates) == 4


@pytest.fixture
def secrets(folder: Path, tmp_path: Path) -> Path:
    """A folder outside, and links to it and to its file."""
    outside = tmp_path / "outside"
    (outside / "inner").mkdir(parents=True)
    (outside / "secret.md").write_text("text")
    (outside / "inner" / "deep.md").write_text("text")
    (outside / "back").symlink_to(folder)
    (outside / "itself").symlink_to(outside)
    (folder / "api" / "users.md").symlink_to(outside / "secret.md")
    (folder / "shared").symlink_to(outside)
    (folder / "twice").symlink_to(folder / "shared" / "inner")
    (folder / "up").symlink_to("..")
    (folder / "nothing.md").symlink_to(tmp_path / "nowhere.md")
    return outside


def test_links_out_of_the_folder_are_left_out_and_named(folder: Path, secrets: Path) -> None:
    found = find([folder], max_bytes=MEGABYTE)
    assert [candidate.source for candidate in found.candidates if candidate.path.is_relative_to(secrets)] == []
    assert (len(found.candidates), found.failures) == (4, ())
    assert {link.source: link.target for link in found.left_out} == {
        "docs/api/users.md": secrets / "secret.md",
        "docs/nothing.md": secrets.parent / "nowhere.md",
        "docs/shared": secrets,
        "docs/twice": secrets / "inner",
        "docs/up": folder.parent,
    }
    assert found.skipped["links out of the folder"] == 5


def test_links_into_another_path_that_is_named_are_no_way_out(folder: Path, secrets: Path) -> None:
    found = find([folder, secrets], max_bytes=MEGABYTE)
    assert {link.source for link in found.left_out} == {"docs/nothing.md", "docs/up"}
    assert {candidate.path.name for candidate in found.candidates} >= {"secret.md", "deep.md"}


def test_links_out_of_the_folder_are_followed_once_where_that_is_wished(folder: Path, secrets: Path) -> None:
    (secrets.parent / "beside.md").write_text("text")
    found = find([folder], max_bytes=MEGABYTE, follow_links=True)
    paths = [candidate.path for candidate in found.candidates]
    assert len(paths) == len({*paths})
    assert {*paths} >= {secrets / "secret.md", secrets / "inner" / "deep.md", secrets.parent / "beside.md"}
    assert found.left_out == ()
    assert [failure.path for failure in found.failures] == [str(folder / "nothing.md")]


def test_a_link_that_took_the_place_of_a_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("text")
    (tmp_path / "a.md").symlink_to(tmp_path / "secret.md")
    with pytest.raises(Unreadable, match="symbolic links"):
        read(tmp_path / "a.md", max_bytes=MEGABYTE)


def test_names_that_command_a_terminal_are_shown_as_text(tmp_path: Path) -> None:
    for name in ("a\x1b[31mred.md", "two\nlines.md", "turned\u202egpj.md", "Größe 世界\u200d.md"):
        (tmp_path / name).write_text("text")
    found = [load(one.path, one.source, max_bytes=9) for one in find([tmp_path], max_bytes=MEGABYTE).candidates]
    assert {one.source.partition("/")[2] for one in found} == {
        r"a\x1b[31mred.md",
        r"two\nlines.md",
        r"turned\u202egpj.md",
        "Größe 世界\u200d.md",
    }
    assert all("\x1b" not in one.title + one.source and "\n" not in one.title + one.source for one in found)


def test_finds_nothing_in_an_empty_folder(tmp_path: Path) -> None:
    found = find([tmp_path], max_bytes=MEGABYTE)
    assert (found.candidates, found.skipped, found.failures) == ((), {}, ())


def test_a_missing_path_is_a_failure_and_the_others_are_found(folder: Path) -> None:
    found = find([folder / "nowhere", folder / "b.md"], max_bytes=MEGABYTE)
    assert found.failures == (Failure(str(folder / "nowhere"), "does not exist"),)
    assert len(found.candidates) == 1


def test_a_named_file_of_another_type_is_a_failure(folder: Path) -> None:
    (failure,) = find([folder / "x.gif"], max_bytes=MEGABYTE).failures
    assert failure.reason.startswith("unsupported type .gif; save the picture as PNG; expected one of .md ")


def test_a_file_over_the_limit_is_a_failure(folder: Path) -> None:
    (folder / "b.md").write_text("x" * 11)
    found = find([folder], max_bytes=10)
    assert [Path(failure.path).name for failure in found.failures] == ["b.md"]
    reason = "too large: 11 bytes, the limit is 10; split the file or raise the limit (ingest.max_file_mb)"
    assert found.failures[0].reason == reason
    assert len(found.candidates) == 3


def test_an_archive_over_the_limit_says_to_unpack_it(tmp_path: Path) -> None:
    (tmp_path / "box.tar.gz").write_bytes(b"x" * 11)
    (failure,) = find([tmp_path], max_bytes=10).failures
    assert "; unpack it and read its files, or raise the limit (ingest.max_file_mb)" in failure.reason


def test_a_broken_link_is_a_failure(folder: Path) -> None:
    (folder / "gone.md").symlink_to(folder / "nowhere")
    assert find([folder], max_bytes=MEGABYTE).failures == (Failure(str(folder / "gone.md"), "does not exist"),)


def test_a_pipe_in_a_folder_is_passed_over(folder: Path) -> None:
    os.mkfifo(folder / "pipe.md")
    assert find([folder], max_bytes=MEGABYTE).skipped["a pipe, not a regular file"] == 1


def test_a_folder_that_cannot_be_listed_is_a_failure_and_the_rest_is_found(open_folder: Path) -> None:
    (open_folder / "closed").mkdir(mode=0o000)
    (open_folder / "open.md").write_text("text")
    with without_rights():
        found = find([open_folder], max_bytes=MEGABYTE)
    assert found.failures == (
        Failure(str(open_folder / "closed"), "cannot list this folder: no permission to read the file"),
    )
    assert len(found.candidates) == 1


def test_a_name_that_is_not_utf_8_can_still_be_shown(folder: Path) -> None:
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.md")).write_text("text")
    sources = [candidate.source for candidate in find([folder], max_bytes=MEGABYTE).candidates]
    assert "docs/caf\ufffd.md" in sources


def test_folders_deeper_than_python_recurses_are_walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(1100):
        Path("d").mkdir()
        os.chdir("d")
    Path("deep.md").write_text("text")
    found = find([tmp_path], max_bytes=MEGABYTE)
    Path("deep.md").unlink()
    while Path.cwd() != tmp_path:  # taken down by hand: rmtree recurses
        os.chdir("..")
        Path("d").rmdir()
    assert len(found.candidates) == 1


# Reading


def test_reads_the_bytes_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"a\r\n\xff")
    assert read(tmp_path / "a.md", max_bytes=4)[0] == b"a\r\n\xff"


def test_reads_no_more_than_the_limit(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"12345")
    with pytest.raises(Unreadable, match="too large: 5 bytes, the limit is 4"):
        read(tmp_path / "a.md", max_bytes=4)


def test_says_what_is_wrong_with_a_path(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "file.md").write_text("text")
    (tmp_path / "loop.md").symlink_to(tmp_path / "loop.md")
    wrong = {
        tmp_path / "none.md": "does not exist",
        tmp_path / "file.md" / "below.md": "does not exist",
        tmp_path / "pipe.md": "a pipe, not a regular file",
        tmp_path: "a folder, not a regular file",
        Path("/dev/zero"): "a device, not a regular file",
        tmp_path / "loop.md": "cannot be read: Too many levels of symbolic links",
        tmp_path / "nul\0.md": "cannot be read: embedded null byte",
    }
    said = {}
    for path in wrong:
        with pytest.raises(Unreadable) as caught:
            read(path, max_bytes=MEGABYTE)
        said[path] = str(caught.value)
    assert said == wrong


def test_a_file_without_permission_is_named_as_that(open_folder: Path) -> None:
    path = open_folder / "secret.md"
    path.write_text("text")
    path.chmod(0o000)
    with without_rights(), pytest.raises(Unreadable, match="^no permission to read the file$"):
        read(path, max_bytes=MEGABYTE)


def test_loads_a_file_with_its_time_of_change(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Title\n\ntext")
    os.utime(tmp_path / "a.md", (5, 1234.5))
    assert load(tmp_path / "a.md", "docs/a.md", max_bytes=MEGABYTE) == Document(
        "docs/a.md", "Title", "# Title\n\ntext", "markdown", 1234.5
    )


def test_hashes_content_with_sha_256() -> None:
    assert content_hash(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


# Decoding


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_reads_utf_8_and_whatever_has_a_byte_order_mark(encoding: str) -> None:
    assert document("Grüße, 世界 👋".encode(encoding)).text == "Grüße, 世界 👋"


def test_newlines_become_newline_characters() -> None:
    assert document("a\r\nb\rc\n").text == "a\nb\nc\n"


@all_rows(
    ("text", "encoding"),
    [
        ("Größe;Stück\n3;4\n", "cp1252"),
        ("Grüße", "latin-1"),
        ("It’s a “quote” – with dashes, and 5 €.", "cp1252"),
        ("Não há informação sobre a reunião de amanhã.", "latin-1"),
        ("Proszę o zwrot kluczy do biura. Zażółć gęślą jaźń.", "cp1250"),
        ("Офис закрывается в пять часов.", "cp1251"),
        ("Офис закрывается в пять часов.", "koi8-r"),
        ("会議は午後五時に終わります。鍵を返してください。", "shift_jis"),
        ("会議は午後五時に終わります。鍵を返してください。", "euc_jp"),
        ("会议在下午五点结束。请归还钥匙。", "gb18030"),
        ("會議在下午五點結束。請歸還鑰匙。", "big5"),
        ("사무실은 다섯 시에 닫습니다.", "euc_kr"),
    ],
)
def test_a_text_in_another_encoding_is_read_and_says_which_was_taken(text: str, encoding: str) -> None:
    read = document(text.encode(encoding))
    assert read.text == text
    assert "which the file does not declare" in read.note
    assert document(text).note == ""


def test_utf_8_with_a_broken_byte_stays_utf_8() -> None:
    broken = "“Grüße” – 世界 " * 20
    read = document(broken.encode() + b"\xff.")
    assert read.text == broken + "\ufffd."
    assert read.note.startswith("read as UTF-8 with broken bytes")


@pytest.mark.parametrize("data", [b"", b" \n\t\r\n", b"\xef\xbb\xbf", b"\xff\xfe", b"---\ntitle: x\n---\n"])
def test_a_file_without_text_is_empty(data: bytes) -> None:
    assert reason(data) == EMPTY


def test_a_page_without_text_is_empty() -> None:
    assert reason("<html><script>let a</script></html>", "a.html") == EMPTY


def test_binary_content_is_not_taken_for_text() -> None:
    assert reason(b"text\0more") == "binary: NUL byte at position 4; expected text: name the file by its type"
    assert reason(bytes(range(1, 32)) * 9).startswith("binary: too many control characters")
    assert reason("a\0b".encode("utf-16")).startswith("binary")


@pytest.mark.parametrize("name", ["a.gif", "README", "a.md.7z"])
def test_other_types_are_named(name: str) -> None:
    assert reason("text", name).startswith("unsupported type")


def test_a_text_with_the_name_of_an_office_file_is_read_as_text() -> None:
    """A client that has read a file itself sends its text."""
    read = parse(b"# Pumps\n\nThe pump is called Zephyr.", Path("report.docx"), "report.docx", 0.0, kind="markdown")
    assert (read.title, read.format) == ("Pumps", "markdown")
    assert [holds_text(Path(name)) for name in ("a.md", "a.docx", "a.unknown")] == [True, False, False]


def test_a_page_may_declare_its_charset() -> None:
    page = '<html><head><meta http-equiv="Content-Type" content="text/html; charset=ISO-8859-1"></head><p>Grüße – €</p>'
    assert document(page.encode("cp1252"), "a.html").text == "Grüße – €"
    assert document('<meta charset="shift_jis"><p>接続</p>'.encode("shift_jis"), "a.html").text == "接続"


@pytest.mark.parametrize("charset", ["utf-16", "unicode_escape", "punycode", "no-such", "base64"])
def test_a_charset_that_no_page_has_is_not_believed(charset: str) -> None:
    assert document(f'<meta charset="{charset}"><p>Grüße</p>', "a.html").text == "Grüße"


def test_only_pages_declare_a_charset() -> None:
    page = '<meta charset="koi8-r">Die Büroräume schließen um fünf.'
    assert "which the file does not declare" in document(page.encode("koi8-r", "ignore") + b"\xc1", "a.md").note


# Titles


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("---\ntitle: From front matter\n---\n# Heading\n", "From front matter"),
        ('---\ntags: [a]\ntitle: "Quoted: yes"\n---\ntext', "Quoted: yes"),
        ("+++\ntitle = 'Toml'\n+++\ntext", "Toml"),
        ("---\ntags: [a]\n---\n\n# Heading", "Heading"),
        ("text\n\n# The `first` [heading](x.md)\n\n# Second", "The first heading"),
        ("Setext\n======\n\ntext", "Setext"),
        ("```\n# comment\n```\n\n# Real", "Real"),
        ("## Only level two", "Getting started"),
        ("# \n\ntext", "Getting started"),
        ("just text", "Getting started"),
    ],
)
def test_markdown_titles(text: str, title: str) -> None:
    assert document(text, "getting-started.md").title == title


def test_front_matter_is_not_part_of_the_text() -> None:
    assert document("---\ntitle: T\ntags:\n  - a\n---\n\n# H\n\ntext").text == "# H\n\ntext"


def test_a_thematic_break_at_the_start_is_not_front_matter() -> None:
    text = "---\nThis is said between two lines.\n---\n\nAnd more."
    assert document(text).text == text


def test_front_matter_that_never_ends_is_text() -> None:
    assert document("---\ntitle: T\n\ntext").text == "---\ntitle: T\n\ntext"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("=====\nGuide\n=====\n\ntext", "Guide"),
        (".. _label:\n\nUse of ``connect``\n=================\n\ntext", "Use of connect"),
        ("text only", "My notes"),
    ],
)
def test_rst_titles(text: str, title: str) -> None:
    assert document(text, "my_notes.rst").title == title


def test_text_is_titled_by_its_name_alone() -> None:
    assert document("# not a heading", "release_notes-2024.txt").title == "Release notes 2024"
    assert document("text", "README.txt").title == "README"


def test_a_title_of_a_page_of_words_is_shortened() -> None:
    title = document("# " + "word " * 500).title
    assert len(title) <= 120
    assert title.endswith("word…")


def test_half_a_character_in_json_is_replaced() -> None:
    text = '[{"question": "Is \\ud83d\\ude00 one?", "answer": "Half: \\ud800."}]'
    for name in ("a.json", "a.jsonl"):
        assert document(text, name).text == "Q: Is \U0001f600 one?\nA: Half: \ufffd.\n"
    titled = document('{"title": "Half \\ud83d", "text": "These are five plain words."}', "a.jsonl")
    assert titled.title == "Half \ufffd"


# Pages

PAGE = """<?xml version="1.0"?>
<!DOCTYPE html>
<html><head><title>Connect &amp; go — Site</title><style>p {}</style></head>
<body><header>Site name</header><nav>Menu</nav>
<main>
<h1>Connect<a class="headerlink" href="#connect">¶</a></h1>
<script>track()</script>
<p>Set <code>max_pool_size</code>, see <a href="other.html">there</a> and <a href="https://example.org/x">here</a>.</p>
<div class="highlight-python notranslate"><pre><span>x</span> = 1

  y = 2
</pre></div>
<table><tr><th>name</th><th>value</th></tr><tr><td>tls</td><td>on</td></tr></table>
<ol start="3"><li>three<li>four</ol>
<aside><a href="/other">Related page</a></aside>
</main><footer>Imprint</footer></body></html>"""


def test_a_page_becomes_the_markdown_of_its_main_part() -> None:
    page = document(PAGE, "connect.html")
    assert (page.title, page.format) == ("Connect & go — Site", "html")
    assert page.text == (
        "# Connect\n\nSet `max_pool_size`, see there and [here](https://example.org/x).\n\n"
        "```python\nx = 1\n\n  y = 2\n```\n\n"
        "| name | value |\n| --- | --- |\n| tls | on |\n\n3. three\n4. four"
    )


def test_a_page_without_main_is_read_without_its_surroundings() -> None:
    page = document("<body><nav>Menu</nav><h1>Pets</h1><p>Bruno</p><footer>Imprint</footer></body>", "a.htm")
    assert (page.title, page.text) == ("Pets", "# Pets\n\nBruno")


def test_the_header_of_an_article_keeps_its_title() -> None:
    page = document("<article><header><h1>Pets</h1></header><p>Bruno</p></article><p>Other</p>", "a.html")
    assert page.text == "# Pets\n\nBruno"


def test_end_tags_that_may_be_left_out_may_be_left_out() -> None:
    text = document(
        "<p>one<p>two<ul><li>a<li>b<ul><li>c</ul></ul><table><tr><td>1<td>2<tr><td>3<td>4</table>", "a.html"
    ).text
    assert text == "one\n\ntwo\n\n- a\n- b\n  - c\n\n| 1 | 2 |\n| --- | --- |\n| 3 | 4 |"
    assert document("<p>word" * 3000, "a.html").text.count("word") == 3000


def test_text_that_looks_like_a_file_name_is_a_page_like_others() -> None:
    assert document("index.html", "a.html").text == "index.html"


@pytest.mark.parametrize("tag", ["div", "b", "blockquote", "ul><li", "table><tr><td"])
def test_a_page_nested_too_deeply_is_unreadable(tag: str) -> None:
    assert "nested too deeply" in reason(f"<{tag}>" * 100_000 + "x", "a.html")


@pytest.mark.parametrize(
    "page",
    [
        "<!--" * 50_000,
        "<a " * 50_000,
        "<![CDATA[" * 20_000,
        '<a b=">' * 20_000,
        "<ol>" + "<li>a" * 5_000,
        "<script>" * 20_000,
        "a" + " " * 500_000 + "b",
        "a" + "&#32;" * 100_000 + "b",
        "<table><thead>" + "<tr><td>a" * 5_000,
        "<table>" + "<tbody><tr><td>a" * 5_000,
        "<blockquote>" * 150 + "a<br>" * 1_000,
        "<header>" * 150 + "<h1>a</h1>" + "<b>a</b>" * 2_000,
        f"<div class='{'a ' * 50_000}'>" + "<pre>a</pre>" * 3_000,
    ],
    ids=[
        "comments",
        "tags",
        "sections",
        "quotes",
        "items",
        "scripts",
        "blanks",
        "entities",
        "rows",
        "bodies",
        "depth",
        "headers",
        "classes",
    ],
)
def test_a_hostile_page_takes_no_longer_than_others(page: str) -> None:
    """Each of these took minutes before; the suite's time limit is the assertion."""
    assert document(f"<p>word</p>{page}", "a.html").text.startswith("word")


def test_what_is_nested_in_too_many_lists_is_indented_no_further() -> None:
    text = document("<ul><li>" * 80 + "deep" + "</li></ul>" * 80, "a.html").text
    assert text.endswith("deep")
    assert len(text) < 400


def test_blanks_in_preformatted_text_stay() -> None:
    assert document(f"<pre>a{' ' * 30}b</pre><p>a{' ' * 30}b", "a.html").text == f"```\na{' ' * 30}b\n```\n\na b"


@pytest.mark.parametrize(
    "page", ["<soup>a</soup>", "<fn_cache>a</fn_cache>", '<ol start="½"><li>a</ol>', '<td colspan="²">a']
)
def test_markup_that_trips_the_converter_is_read(page: str) -> None:
    assert "a" in document(page, "a.html").text


def test_a_heading_of_a_level_beyond_numbers_is_unreadable() -> None:
    assert reason(f"<h{'9' * 5000}>x", "a.html").startswith("the HTML cannot be converted")
