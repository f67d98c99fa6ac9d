"""What goes wrong between us and a server."""


class Trouble(Exception):
    """A request that came to nothing.

    When it `is_lost`, the connection broke or the answer cannot be read: whether the server did anything is
    not known. Otherwise the server said no.
    """

    def __init__(self, message: str, *, is_lost: bool) -> None:
        super().__init__(message)
        self.message = message
        self.is_lost = is_lost
