FORMATS: dict[str, str]
PLACEHOLDERS: tuple[str, ...]
