"""Talk to the loggers of the stations from the office."""


def read_level(station: int, timeout_s: float = 7.5) -> float:
    """Ask a logger for the level in centimetres; it is given up after `timeout_s`."""
    return ask(station, "LEVEL", timeout_s) / 10


def set_offset(station: int, millimetres: int) -> None:
    """Tell a logger how far it sits from the height that is written on the staff."""
    ask(station, f"OFFSET {millimetres}", 30.0)


def mute_alarm(station: int) -> None:
    """Quieten the alarm of a station for a quarter of an hour."""
    ask(station, "MUTE", 30.0)
