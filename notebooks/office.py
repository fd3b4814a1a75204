"""Sixty tools of an office for the lesson on many tools: they only say that they ran. Each with two ways to ask for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from harness_nb import Tool, tool

TYPES = {"text": str, "number": int, "list": list[str], "yes": bool}

TABLE = """
mail_send | Send an e-mail. Needs addresses, a subject and a text; sends at once and can't be taken back. | to:list addresses of those who get it; subject:text one line; body:text plain text; cc?:list who gets a copy | send email to a colleague | Let Ana know by mail that the meeting moved to Friday.
mail_search | Search the mailbox. Looks at sender, subject and text of received and sent messages; newest first. | query:text words to look for; folder?:text inbox, sent or archive; limit?:number how many to return | search mailbox for message | Did the supplier ever write to us about the delay?
mail_read | Show one message of the mailbox in full, with its attachments listed. | message:text its id as the search gives it | open email message | Show me the whole text of that mail.
mail_archive | Move messages out of the inbox into the archive. Nothing is deleted. | messages:list their ids | archive emails | Clear my inbox of the newsletters, but don't delete them.
mail_draft | Save a message as a draft without sending it, for a person to look over. | to:list addresses; subject:text one line; body:text plain text | save email draft | Prepare a reply to the landlord that I can look over before it goes out.
calendar_create_event | Put an appointment in the calendar and invite people to it. | title:text what it is; start:text ISO date and time; minutes:number how long; invite?:list addresses | create calendar event | Set up a one-hour call with Ben on Tuesday at ten.
calendar_list_events | List the appointments between two dates, with time, place and people. | start:text first day; end:text last day | list appointments this week | What have I got on tomorrow?
calendar_find_slot | Find times at which all of some people are free. | people:list addresses; minutes:number how long; within?:text a range of days | find free time for meeting | When could the four of us meet next week?
calendar_move_event | Change the date or time of an appointment; everyone invited is told. | event:text its id; start:text the new ISO date and time | reschedule appointment | Push the dentist back by two days.
calendar_cancel_event | Cancel an appointment and tell everyone invited. | event:text its id; reason?:text why | cancel meeting | Call off the review on Monday.
chat_post | Post a message in a channel of the team chat. | channel:text its name; text:text what to say | post message to channel | Tell the team in the general channel that lunch is here.
chat_direct | Send a private message to one person in the team chat. | person:text the user name; text:text what to say | direct message person | Ping Omar privately and ask if he is around.
chat_search | Search what was said in the team chat, in all channels that you can see. | query:text words to look for; channel?:text only this one | search chat history | Who mentioned the outage in our channels?
chat_create_channel | Open a new channel in the team chat and add people to it. | name:text its name; people?:list user names | create chat channel | We need a room for the people who plan the move.
chat_set_status | Set your status in the team chat, such as away or on holiday. | status:text what others see; until?:text ISO date and time | set status away | Show everybody that I am out until Thursday.
issue_create | Report a bug or a wish in the issue tracker. | title:text one line; body:text what happens and what should; labels?:list kinds | create issue for bug | File a bug: the export button does nothing.
issue_search | Search the issue tracker by words, state and label. | query:text words; state?:text open or closed; label?:text one kind | search open issues | Has anybody reported the crash on start-up already?
issue_comment | Add a comment to an issue. | issue:number its number; body:text Markdown | comment on issue | Write under ticket 42 that it is fixed in the nightly build.
issue_close | Close an issue, with a reason. | issue:number its number; reason?:text done, duplicate or won't do | close issue | Ticket 17 is a duplicate, get rid of it.
issue_assign | Make a person responsible for an issue. | issue:number its number; person:text the user name | assign issue to person | Give the login problem to Priya.
wiki_search | Search the pages of the company wiki. | query:text words to look for; space?:text a part of the wiki | search wiki documentation | How do we usually set up a new laptop? It must be documented somewhere.
wiki_read_page | Show a page of the wiki as Markdown. | page:text its title or id | read wiki page | Open the onboarding page.
wiki_create_page | Write a new page in the wiki. | title:text its title; body:text Markdown; parent?:text the page above it | create wiki page | Put our decision about backups into the handbook.
wiki_edit_page | Replace a part of a wiki page. | page:text its title or id; old:text the words to replace; new:text what to put there | update wiki page | The phone number on the contact page is out of date.
wiki_history | List who changed a wiki page, when, and how. | page:text its title or id; limit?:number how many changes | page revision history | Who last touched the travel policy?
drive_list_files | List the files in a folder of the shared drive. | folder:text its path | list files in folder | What is in the marketing folder?
drive_upload | Upload a file from the workspace to the shared drive. | path:text the file here; folder:text where it goes | upload file to drive | Put this report where the others can get at it.
drive_download | Download a file from the shared drive into the workspace. | file:text its path there; path:text where to put it | download file from drive | Get me a local copy of the contract.
drive_share | Give people access to a file or folder of the shared drive. | file:text its path; people:list addresses; role:text reader or editor | share file with people | Let the auditors see the 2025 folder.
drive_search | Search the shared drive by name and content. | query:text words; kind?:text document, sheet or picture | search documents in drive | Where is the spreadsheet with the budget?
sql_query | Run a SELECT statement on the sales database and return the rows. | statement:text SQL, one SELECT; limit?:number most rows | run sql query | How many orders came in last month, by country?
sql_list_tables | List the tables of the sales database with their columns and types. | schema?:text only these | list database tables | What columns does the order data have?
sql_explain | Show how the database would run a statement, without running it. | statement:text SQL | explain query plan | Why is this statement so slow?
sql_export | Write the result of a SELECT statement to a CSV file in the workspace. | statement:text SQL; path:text the file to write | export query result to csv | Dump all customers of 2024 into a file that I can open in a spreadsheet.
sql_backup | Make a backup of the sales database now. | name:text what to call it | back up database | Take a snapshot of the database before we change anything.
invoice_create | Make an invoice for a customer. | customer:text name or number; items:list what is charged; due?:text ISO date | create invoice for customer | Bill Meyer Ltd for twelve hours of work.
invoice_list_unpaid | List the invoices that are not paid yet, the oldest first. | customer?:text only theirs; days?:number overdue by at least | list overdue invoices | Who still owes us money?
invoice_remind | Send a customer a reminder of an invoice that is overdue. | invoice:text its number | send payment reminder | Nudge Meyer Ltd, they should have paid two weeks ago.
payment_refund | Pay back a payment, whole or in part. | payment:text its id; amount?:number in cents | refund payment | The customer sent the chairs back, return the money.
expense_submit | Hand in an expense for refund, with its receipt. | amount:number in cents; what:text what it was for; receipt:text path of a picture | submit expense receipt | I paid 40 euros for the taxi, get it back for me.
customer_find | Find a customer by name, address or number. | query:text what is known | find customer record | What is the phone number of the bakery that we sell to?
customer_add | Add a customer to the records. | name:text full name; email?:text address; phone?:text number | add new customer | We have a new client, Okafor and Sons.
customer_note | Add a note to a customer's record, such as what was said on the phone. | customer:text name or number; note:text what to keep | log note on customer | Remember that Meyer Ltd prefers to be called in the morning.
deal_update | Move a deal to another stage of the sales pipeline. | deal:text its id; stage:text lead, offer, won or lost | update deal stage | We got the Okafor order, mark it as won.
deal_forecast | Estimate the revenue of the open deals for a quarter. | quarter:text such as 2026Q3 | forecast revenue | How much can we expect to sell by the end of September?
flight_search | Search flights between two cities on a date, cheapest first. | origin:text city or airport; destination:text city or airport; date:text ISO date | search flights | How do I get from Lisbon to Oslo on the 3rd, by air?
train_search | Search train connections between two stations. | origin:text station; destination:text station; date:text ISO date and time | search trains | I'd rather go by rail to Vienna.
hotel_book | Book a hotel room. Costs money; can be cancelled for a day. | hotel:text its id; arrive:text ISO date; nights:number how many | book hotel room | I need a place to stay in Oslo for two nights.
trip_list | List your booked trips with flights, trains and hotels. | year?:number only of this year | list booked trips | Which journeys have I planned this spring?
trip_cancel | Cancel a booked trip or a part of it; says what is lost. | trip:text its id; part?:text only this | cancel trip booking | I can't travel after all, undo the Oslo bookings.
leave_request | Ask for days of leave. Your manager decides. | first:text ISO date; last:text ISO date; kind?:text holiday, sick or other | request vacation days | I want the last week of August off.
leave_balance | Show how many days of leave you have left. | year?:number which year | remaining vacation days | How much holiday do I still have?
person_lookup | Look up a colleague: role, team, phone, office, manager. | name:text all or part of it | look up employee | Who is Priya's boss?
payslip_get | Fetch your payslip of a month as a PDF. | month:text such as 2026-07 | get payslip | Where can I see what I earned in July?
room_reserve | Reserve a meeting room. | room:text its name; start:text ISO date and time; minutes:number how long | reserve meeting room | We need somewhere to sit for the workshop on Monday.
text_translate | Translate a text into another language. | text:text what to translate; language:text into which | translate text | Put this letter into Portuguese.
image_resize | Make a picture smaller or larger. | path:text the file; width:number in pixels | resize image | The photo is too big for the page, shrink it.
pdf_extract_text | Get the text out of a PDF file. | path:text the file; pages?:text such as 1-3 | extract text from pdf | What does the scanned agreement say on page three?
weather_forecast | Give the weather forecast of a place for the next days. | place:text a city; days?:number how many, at most 7 | weather forecast | Will it rain in Oslo at the weekend?
currency_convert | Convert an amount of money from one currency to another at today's rate. | amount:number how much; source:text such as EUR; target:text such as NOK | convert currency | How much are 200 euros in Norwegian crowns?
"""


@dataclass(frozen=True)
class Entry:
    """A tool, the words a model might search it with, and what a person might say who needs it."""

    tool: Tool
    words: str
    wish: str


def office() -> list[Entry]:
    """Make the sixty tools, in the order of the table."""
    rows = [
        [cell.strip() for cell in line.split(" | ")] for line in TABLE.strip().splitlines()
    ]
    return [
        Entry(made(name, description, parameters), words, wish)
        for name, description, parameters, words, wish in rows
    ]


def made(name: str, description: str, parameters: str) -> Tool:
    """Make a tool with these parameters, written as `name:type what it is; other?:type ...`."""
    first, _, rest = description.partition(". ")
    words = f"{first.rstrip('.')}.\n\n{rest}".strip()
    return tool(name=name, description=words, effects={"read"})(_stub(name, parameters))


def copies(tools: list[Tool], count: int) -> list[Tool]:
    """Give so many tools: the same ones for a second account, a third, and so on, as servers for several accounts do."""
    return [
        tool(name=f"{each.name}_{n // len(tools) + 1}", description=each.spec.description)(
            each.function
        )
        if n >= len(tools)
        else each
        for n, each in ((n, tools[n % len(tools)]) for n in range(count))
    ]


def _stub(name: str, parameters: str) -> Callable[..., str]:
    def body(**given: object) -> str:
        return f"{name} did it: {given}"

    found = []
    for parameter in parameters.split("; "):
        head, _, words = parameter.partition(" ")
        key, _, kind = head.partition(":")
        default = None if key.endswith("?") else inspect.Parameter.empty
        annotation = TYPES[kind] if default is not None else TYPES[kind] | None
        found.append(
            inspect.Parameter(
                key.rstrip("?"),
                inspect.Parameter.KEYWORD_ONLY,
                default=default,
                annotation=Annotated[annotation, words],
            )
        )
    body.__signature__ = inspect.Signature(found)  # type: ignore[attr-defined]
    body.__annotations__ = {one.name: one.annotation for one in found}
    return body
