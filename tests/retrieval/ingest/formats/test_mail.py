"""Mails as Markdown: headers, the text once, and attachments; mailboxes mail by mail."""

import time
from email.message import EmailMessage
from pathlib import Path

import pytest

from retrieval.errors import Unreadable
from retrieval.ingest.containers import Packed, Unpacked, unpack
from retrieval.ingest.formats.mail import without_quotes
from retrieval.ingest.load import parse
from retrieval.records.documents import Document


def message(text: str = "The crane is broken.\n", subject: str = "Crane", id: str = "<1@pier.example>") -> EmailMessage:
    mail = EmailMessage()
    mail["From"] = "Ada Løvlie <ada@pier.example>"
    mail["To"] = "harbour@pier.example"
    mail["Subject"] = subject
    mail["Date"] = "Fri, 03 May 2024 10:00:00 +0200"
    mail["Message-ID"] = id
    mail.set_content(text)
    return mail


def read(data: bytes) -> Document:
    return parse(data, Path("/mail/a.eml"), "mail/a.eml", 1.0)


def opened(data: bytes, name: str) -> Unpacked:
    return unpack(Packed(name, data, 12.5, 2**20, 2**23))


def test_a_mail_has_its_headers_before_its_text() -> None:
    document = read(message().as_bytes())
    assert document.title == "Crane"
    assert document.text == (
        "From: Ada Løvlie <ada@pier.example>  \nTo: harbour@pier.example  \n"
        "Date: Fri, 03 May 2024 10:00:00 +0200\n\nThe crane is broken.\n"
    )
    assert document.attributes == {
        "author": "Ada Løvlie <ada@pier.example>",
        "created": "2024-05-03T08:00:00+00:00",
    }


def test_of_two_forms_the_text_is_read_once() -> None:
    mail = message()
    mail.add_alternative("<p>The crane is <b>broken</b>.</p>", subtype="html")
    assert read(mail.as_bytes()).text.count("crane is") == 1


def test_a_page_is_read_where_the_plain_part_says_nothing() -> None:
    mail = message("Please view this mail in a browser.\n")
    mail.add_alternative("<h1>Prices</h1><p>" + "A night costs 160 crowns. " * 5 + "</p>", subtype="html")
    text = read(mail.as_bytes()).text
    assert "# Prices" in text
    assert "browser" not in text


def test_attachments_are_members_and_are_named_in_the_text() -> None:
    mail = message()
    mail.add_attachment(b"# Plan\n\nThe plan.", maintype="text", subtype="markdown", filename="plan.md")
    mail.add_attachment(b"x;y", maintype="text", subtype="csv", filename="../Maße.csv")
    mail.add_attachment(b"picture", maintype="image", subtype="svg+xml", filename="logo.svg")
    mail.add_attachment(message("Forwarded.", "Old news"))
    data = mail.as_bytes()
    unpacked = opened(data, "a.eml")
    assert [member.name for member in unpacked.members] == ["", "plan.md", "Maße.csv", "Old news.eml"]
    assert unpacked.members[0].data == data
    assert unpacked.members[1].data == b"# Plan\n\nThe plan."
    assert read(unpacked.members[3].data).title == "Old news"
    assert unpacked.unread == ("logo.svg",)
    assert read(data).text.endswith("\n\nAttachments: plan.md, Maße.csv, logo.svg, Old news.eml\n")


def test_a_mail_in_any_charset_is_read() -> None:
    raw = "From: a@b.example\r\nSubject: Grüße aus Köln\r\n\r\nDie Büroräume schließen um fünf.\r\n"
    document = read(raw.encode("latin-1"))
    assert (document.title, "Die Büroräume schließen um fünf." in document.text) == ("Grüße aus Köln", True)
    declared = "From: a@b.example\nContent-Type: text/plain; charset=shift_jis\n\n会議は五時です。"
    assert "会議は五時です。" in read(declared.encode("cp932")).text
    unknown = b"From: a@b.example\nContent-Type: text/plain; charset=x-none\n\nPlain."
    assert "Plain." in read(unknown).text


@pytest.mark.parametrize(
    "broken",
    [
        b"Subject: =?utf-8?b?!!!?=\nFrom: =?x?q?=80?=\n\ntext",
        b"Subject: a\nDate: 99 Foo\nContent-Type: multipart/mixed; boundary=x\n\n--x\n\ntext",
        b"Subject: a\nContent-Type: multipart/mixed\n\ntext",
        b"Subject: a\nContent-Type: text/plain\nContent-Transfer-Encoding: base64\n\ntext!!",
        b"Subject: a\nContent-Disposition: attachment; filename*=\"x'y'%ff\"\n\ntext",
        b"Subject: a\nContent-Type: message/rfc822\n\n",
    ],
)
def test_a_broken_mail_costs_no_more_than_a_part(broken: bytes) -> None:
    assert read(broken).text
    assert opened(broken, "a.eml").members


def test_what_is_not_a_mail_says_so() -> None:
    with pytest.raises(Unreadable, match="not a mail"):
        read(b"Hello, this is a text.\n")


def mailbox(*mails: bytes) -> bytes:
    return b"".join(b"From ada@pier.example Fri May  3 10:00:00 2024\n" + mail + b"\n" for mail in mails)


def test_a_mailbox_holds_each_mail_and_what_is_quoted_once() -> None:
    reply = message("It works again.\n\nOn 3 May 2024, Ada wrote:\n> The crane is broken.\n", "Re: Crane", "<2@x>")
    reply["In-Reply-To"] = "<1@pier.example>"
    data = mailbox(message("The crane is broken.\n>From here on.\n").as_bytes(), reply.as_bytes())
    unpacked = opened(data, "list.mbox")
    assert [member.name for member in unpacked.members] == ["2024-05-03 Crane.eml", "2024-05-03 Re Crane.eml"]
    first, second = (read(member.data).text for member in unpacked.members)
    assert "From here on." in first
    assert second.endswith("\n\nIt works again.\n")
    assert unpacked.members[0].modified_s == 1714723200
    # the reply alone keeps what it answers
    assert "The crane is broken." in read(reply.as_bytes()).text


def test_mails_with_the_same_subject_stay_apart() -> None:
    mails = [message(f"Text {n}.", subject).as_bytes() for n, subject in enumerate(["a", "a", "a (2)", "a"])]
    names = [member.name for member in opened(mailbox(*mails), "list.mbox").members]
    assert len(set(names)) == 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Yes.\n\nAm 3. Mai schrieb Ada:\n> Broken?\n>\n> Ada\n", "Yes.\n\n"),
        ("> Broken?\n\nYes.\n", "> Broken?\n\nYes.\n"),
        ("Ada wrote:\n" + "> line\n" * 20 + "\nYes.\n", "\nYes.\n"),
        ("Yes.\n\n-----Original Message-----\nFrom: Ada\nSent: Friday\n\nBroken?\n", "Yes.\n\n"),
        ("A list:\n-----\nnot a mail\n", "A list:\n-----\nnot a mail\n"),
    ],
)
def test_quotations_of_a_whole_mail_are_left_out(text: str, expected: str) -> None:
    assert without_quotes(text) == expected


@pytest.mark.parametrize(
    "text",
    ["x" * 1_000_000 + ":\n> a\n", "> a\n\nb\n\n" * 50_000, ">" * 500_000, "-" * 1_000_000, "a:\n" * 300_000 + "> b\n"],
)
def test_hostile_quotations_take_no_longer_than_others(text: str) -> None:
    started = time.process_time()
    without_quotes(text)
    assert time.process_time() - started < 2


def test_a_hostile_header_takes_no_longer_than_others() -> None:
    started = time.process_time()
    read(b"From: " + b"=?utf-8?q?a?= " * 200_000 + b"\n\ntext")
    assert time.process_time() - started < 2
