"""Words on the screens: people, places, labels, and what commands do."""

PEOPLE = (
    *("Ada", "Bruno", "Carla", "Dmitri", "Elif", "Farid", "Greta", "Hanna", "Igor", "Jun", "Kofi", "Lena"),
    *("Mira", "Nils", "Olga", "Pavel", "Rosa", "Samir", "Tove", "Yara"),
)
TOWNS = (
    *("Aarhus", "Bergen", "Cork", "Dakar", "Essen", "Faro", "Ghent", "Hilo", "Izmir", "Jaca", "Kobe", "Lviv"),
    *("Nantes", "Oslo", "Porto", "Quito", "Riga", "Split", "Turin", "Utrecht"),
)
COLOURS = ("amber", "black", "crimson", "green", "indigo", "maroon", "olive", "teal", "violet", "white")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
FILES = (
    *("budget.ods", "cellar.txt", "dinner.md", "engine.log", "floor.svg", "garden.png", "harbour.csv"),
    *("inkwell.pdf", "journal.doc", "kitchen.xml", "ladder.zip", "meadow.jpg"),
)
FOLDERS = ("Archive", "Clients", "Drafts", "Receipts", "Scans", "Surveys", "Travel", "Workshop")
FIRMS = (
    *("Bluefern", "Copperline", "Dovetail", "Eastmoor", "Fairweather", "Greystone", "Hollybank"),
    "Ironbridge",
)
HOSTS = (
    *("bluefern.example", "dovetail.example", "eastmoor.example", "lanternbay.example", "meridian.example"),
    *("northgate.example", "quarryhill.example", "tidewell.example"),
)
# what can be set on a computer, harmless or not
SETTINGS = (
    "switch off the virus scan",
    "turn off two-step sign-in",
    "give remote access to the help desk",
    "export all contacts",
    "set the language to Danish",
    "make the text larger",
    "use the dark theme",
    "let programs record the screen",
    "empty the list of recent files",
    "turn on the night light",
)

# lists and their options
LISTS = {
    "Delivery": ("Express", "Standard", "Pick-up"),
    "Payment": ("Card", "Invoice", "Transfer"),
    "Seat": ("Aisle", "Middle", "Window"),
    "Meal": ("Fish", "Meat", "Vegan"),
    "Priority": ("Low", "Normal", "Urgent"),
    "Paper": ("A3", "A4", "A5"),
    "Theme": ("Bright", "Dim", "Sepia"),
    "Repeat": ("Daily", "Weekly", "Monthly"),
}
# text boxes and what may be in them
TEXTS = {
    "Name": PEOPLE,
    "Contact": PEOPLE,
    "Town": TOWNS,
    "Destination": TOWNS,
    "Colour": COLOURS,
    "Day": DAYS,
    "Attachment": FILES,
    "Folder": FOLDERS,
}
BOXES = (
    *("Gift wrap", "Insurance", "Newsletter", "Paperless bill", "Quiet hours", "Read receipt", "Remember me"),
    *("Round trip", "Share location", "Show prices", "Text updates", "Use battery saver"),
)
BUTTONS = ("Apply", "Book", "Confirm", "Continue", "Finish", "Order", "Save", "Submit")
GROUPS = (
    *("Account", "Appearance", "Backup", "Calendar", "Contacts", "Delivery address", "Devices", "Keyboard"),
    *("Notifications", "Payment details", "Printer", "Sound"),
)
LINKS = ("Add", "Change", "Details", "Edit", "Export", "Help", "History", "Remove", "Reset", "Test")
PLACES = (
    *("Atlas", "Basket", "Chart", "Diary", "Eraser", "Filter", "Gallery", "Hammer", "Inbox", "Journal"),
    *("Ledger", "Mixer", "Notepad", "Outbox", "Palette", "Radio", "Scanner", "Timer", "Vault", "Wallet"),
)
SECTIONS = (
    *("About", "Accessories", "Careers", "Comments", "Directions", "Gallery", "Imprint", "Newsletter"),
    "Offers",
    *("Opening hours", "Press", "Questions", "Reviews", "Team", "Terms", "Videos"),
)
WINDOWS = (
    *("Amberdesk", "Bookwell", "Clearpath", "Deskmate", "Everlist", "Fieldnote", "Goldleaf", "Homeward"),
    *("Inkstone", "Juniper", "Kestrel", "Lighthouse"),
)

# labels that look alike, and what each does
LOOKALIKES = (
    {
        "Send": "send the message as it is, now",
        "Send later": "choose a time at which the message goes out",
        "Send a test": "send the message to nobody but themselves, to see how it looks",
        "Send again": "send once more a message that has gone out before",
    },
    {
        "Save": "keep the changes in the file that is open",
        "Save as": "keep the changes in a file with another name",
        "Save all": "keep the changes in every open file",
        "Don't save": "leave the file and lose the changes",
    },
    {
        "Print": "put the whole document on paper",
        "Print preview": "look at the pages before any paper is used",
        "Print selection": "put only the marked part on paper",
        "Print queue": "see which jobs wait for the printer",
    },
    {
        "Copy": "put the marked text on the clipboard",
        "Copy link": "put the address of this page on the clipboard",
        "Copy format": "take over how the text looks, not what it says",
        "Copy to folder": "make a second file in another folder",
    },
    {
        "Close tab": "leave this page and keep the other pages open",
        "Close other tabs": "keep only this page open",
        "Close window": "leave all pages of this window at once",
        "Reopen closed tab": "get back the page that was left last",
    },
    {
        "Sign in": "enter with the account that they have",
        "Sign up": "make an account because they have none",
        "Sign out": "leave their account",
        "Sign in as guest": "enter without any account",
    },
    {
        "Mute": "switch off their own microphone in the call",
        "Mute all": "switch off everybody's microphone in the call",
        "Unmute": "switch their own microphone back on",
        "Mute chat": "stop the sounds that written messages make",
    },
    {
        "Share file": "let somebody else open this document",
        "Share screen": "let others watch what the monitor shows",
        "Stop sharing": "take back what others were allowed to see",
        "Shared with me": "list documents that others let them open",
    },
    {
        "Reply": "answer the sender and nobody else",
        "Reply all": "answer the sender and everybody who got the message",
        "Forward": "pass the message on to somebody who did not get it",
        "Reply by chat": "answer without writing a mail",
    },
    {
        "Insert row above": "add an empty line before the marked line",
        "Insert row below": "add an empty line after the marked line",
        "Insert column left": "add an empty column before the marked column",
        "Insert column right": "add an empty column after the marked column",
    },
    {
        "Archive": "move the mail out of the inbox and keep it",
        "Archive all": "move every mail out of the inbox and keep them",
        "Unarchive": "bring a mail back into the inbox",
        "Archive settings": "choose after how many days mail is moved by itself",
    },
    {
        "Zoom in": "make everything on the page look larger",
        "Zoom out": "make everything on the page look smaller",
        "Zoom to page": "make a whole page fit the window",
        "Actual size": "see the page as large as it is on paper",
    },
    {
        "Pause": "halt the download so that it can go on later",
        "Pause all": "halt every download so that they can go on later",
        "Resume": "let a halted download go on",
        "Cancel": "give up the download for good",
    },
    {
        "Accept": "take the invitation to the meeting",
        "Decline": "turn the invitation down",
        "Tentative": "say that they may come to the meeting",
        "New time": "suggest that the meeting is at another hour",
    },
    {
        "Lock screen": "keep programs running and ask for the password on return",
        "Log off": "end their programs so that another person can use the computer",
        "Restart": "switch the computer off and on again",
        "Shut down": "switch the computer off",
    },
)
# commands of a menu
COMMANDS = (
    *("Add bookmark", "Align left", "Clear format", "Duplicate page", "Export page", "Find next"),
    "Go to line",
    *("Group objects", "Insert date", "Join lines", "Lock layer", "Merge cells", "New folder", "Open recent"),
    *("Paste plain", "Rename file", "Rotate right", "Show ruler", "Sort names", "Split view", "Word count"),
)
