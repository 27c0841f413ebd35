"""`EventRegistry`: event types, their classes, handlers and upcasters."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeVar

from postroom.errors import EventDefinitionError, PayloadError, UnknownEventTypeError
from postroom.events.options import event_type_of, event_version_of, field_names, is_version
from postroom.events.payload import event_codec
from postroom.events.topics import is_pattern, is_topic, topic_matches
from postroom.events.upcasters import Upcaster, apply, check_step, check_upcaster, path_of

Handler = TypeVar("Handler", bound=type[Any])


@dataclass(frozen=True, slots=True)
class HandlerEntry:
    """A handler class, and its name in receipts."""

    handler: type[Any]
    name: str


@dataclass(eq=False, slots=True)
class EventRegistry:
    """The event classes, handlers and upcasters of an application. The decorators fill it.

    `handles` and `upcasts` of `postroom` fill the default one. Tests and plug-ins make their own,
    for `Outbox(…, events=…)`.
    """

    # By event type, so that a class which is imported anew keeps its handlers.
    _class_handlers: dict[str, list[HandlerEntry]] = field(init=False, default_factory=dict)
    _name_handlers: dict[str, list[HandlerEntry]] = field(init=False, default_factory=dict)
    _classes: dict[str, type] = field(init=False, default_factory=dict)
    _upcasters: dict[tuple[str, int], Upcaster] = field(init=False, default_factory=dict)

    def handles(
        self, event_type: type | str, *, name: str | None = None
    ) -> Callable[[Handler], Handler]:
        """Register the decorated class as a handler of an event class, or of event types by name.

        A handler of a class gets the events of its subclasses too. A name may be a pattern, as
        routes have: in `order.*`, `*` is one word, and `#` would be any number of them. `name` is
        the handler's name in receipts, by default its module and class: keep it when you rename
        the class. Raises EventDefinitionError if another handler of the event has the name.
        """
        if isinstance(event_type, type):
            self.register(event_type)
        elif not is_topic(event_type):
            raise EventDefinitionError(
                f"@handles got {event_type!r}. Give it an event class, the name of an event type,"
                " or a pattern such as 'order.*': `*` is one whole word, `#` any number of them."
            )

        def decorate(handler: Handler) -> Handler:
            entry = HandlerEntry(handler, name or path_of(handler))
            self._add(event_type, entry)
            return handler

        return decorate

    def _add(self, event_type: type | str, entry: HandlerEntry) -> None:
        by_class = isinstance(event_type, type)
        handlers = self._class_handlers if by_class else self._name_handlers
        entries = handlers.setdefault(_shown(event_type), [])
        for index, known in enumerate(entries):
            if path_of(known.handler) == path_of(entry.handler):  # the module was imported anew
                entries[index] = entry
                return
            if known.name == entry.name:
                raise EventDefinitionError(
                    f"two handlers of {_shown(event_type)} are called {entry.name!r}:"
                    f" {path_of(known.handler)} and {path_of(entry.handler)}."
                    " Give one another name=…."
                )
        entries.append(entry)

    def get_handlers_for(self, event_type: type | str) -> list[type[Any]]:
        """Return the handler classes of an event class or name, in order of registration.

        The handlers of a base class come after those of the class itself.
        """
        return [entry.handler for entry in self.handler_entries(event_type)]

    def handler_entries(self, event_type: type | str) -> Iterator[HandlerEntry]:
        """Return the handlers of an event class or name, with their names, in the same order."""
        if isinstance(event_type, str):
            return iter(dict.fromkeys(self._by_name(event_type)))
        event_types = map(event_type_of, event_type.__mro__)
        found = chain.from_iterable(self._class_handlers.get(each, ()) for each in event_types)
        return iter(dict.fromkeys(found))

    def _by_name(self, event_type: str) -> Iterator[HandlerEntry]:
        """Yield the handlers of the name itself, and then those of patterns."""
        yield from self._name_handlers.get(event_type, ())
        for pattern, entries in self._name_handlers.items():
            if is_pattern(pattern) and topic_matches(pattern, event_type):
                yield from entries

    def handler_classes(self) -> list[type[Any]]:
        """Return every handler class once."""
        lists = chain(self._class_handlers.values(), self._name_handlers.values())
        return list(dict.fromkeys(entry.handler for entry in chain.from_iterable(lists)))

    def register(self, event_class: type) -> None:
        """Make an event class known by its event type.

        Raises EventDefinitionError if it is no event, or another class has the event type.
        """
        event_type = event_type_of(event_class)
        known = self._classes.get(event_type)
        if known is event_class:
            return
        if known is not None and path_of(known) != path_of(event_class):
            raise EventDefinitionError(
                f"two classes are called {event_type!r}: {path_of(known)} and"
                f" {path_of(event_class)}."
                f' Give one a name of its own: class {event_class.__name__}(…, name="…").'
            )
        check_event_class(event_class)
        self._classes[event_type] = event_class

    def event_class(self, event_type: str) -> type:
        """Return the class of an event type: a registered class, or a subclass of one.

        Raises UnknownEventTypeError.
        """
        if event_type not in self._classes:
            for subclass in _subclasses(list(self._classes.values())):
                if event_type_of(subclass) == event_type:
                    self.register(subclass)
        try:
            return self._classes[event_type]
        except KeyError:
            raise UnknownEventTypeError(event_type, self._classes) from None

    def event_types(self) -> list[str]:
        """Return every event type that has a class or a handler, in alphabetical order."""
        names = (name for name in self._name_handlers if not is_pattern(name))
        return sorted({*self._classes, *names})

    def upcast_versions(self, event_type: str) -> list[int]:
        """Return the old versions of an event type that an upcaster reads."""
        return sorted(version for name, version in self._upcasters if name == event_type)

    def knows(self, event_type: str, version: Any) -> bool:
        """Return whether handlers can be given an event of this type and version.

        If not, other code has written it: a newer release, or one that had its class or upcaster.
        """
        try:
            event_class = self.event_class(event_type)
        except UnknownEventTypeError:
            return any(self.handler_entries(event_type))
        if not any(self.handler_entries(event_class)) or not is_version(version):
            return True  # nobody reads it; or it is a mistake, which no release knows
        current = event_version_of(event_class)
        steps = range(version, current)
        return version <= current and all((event_type, step) in self._upcasters for step in steps)

    def upcasts(self, event_type: type | str, *, version: int) -> Callable[[Upcaster], Upcaster]:
        """Register the decorated function: it turns a payload of `version` into the next version.

        Raises EventDefinitionError if that version has an upcaster.
        """
        check_step(event_type, version)
        name = _shown(event_type)

        def decorate(upcaster: Upcaster) -> Upcaster:
            check_upcaster(name, upcaster)
            known = self._upcasters.get((name, version))
            if known is not None and path_of(known) != path_of(upcaster):
                raise EventDefinitionError(
                    f"{name} has two upcasters from version {version}:"
                    f" {path_of(known)} and {path_of(upcaster)}. Remove one of them."
                )
            self._upcasters[name, version] = upcaster
            return upcaster

        return decorate

    def upcast(
        self, event_class: type, document: Mapping[str, Any], version: Any
    ) -> Mapping[str, Any]:
        """Turn a payload of `version` into one of the class's version. Raises PayloadError."""
        name, current = event_type_of(event_class), event_version_of(event_class)
        if not is_version(version) or version > current:
            remedy = "Deploy the code that wrote it" if is_version(version) else "Correct it"
            raise PayloadError(
                f"a payload of {name} is of version {version!r}, and this code knows 1 to"
                f" {current}. {remedy}."
            )
        for step in range(version, current):
            document = self._step(event_class, document, step)
        return document

    def _step(
        self, event_class: type, document: Mapping[str, Any], version: int
    ) -> Mapping[str, Any]:
        name = event_type_of(event_class)
        upcaster = self._upcasters.get((name, version))
        if upcaster is None:
            raise PayloadError(
                f"a payload of {name} is of version {version}, and nothing upcasts version"
                f" {version}. Add @upcasts({event_class.__name__}, version={version})."
            )
        step = f"a payload of {name} cannot be upcast from version {version}"
        return apply(upcaster, document, step)


def check_event_class(event_class: type) -> None:
    """Refuse a class that cannot be an event, for want of an id and a time, or of a codec."""
    names = field_names(event_class)
    for needed in ("event_id", "occurred_at"):
        if needed not in names and not hasattr(event_class, needed):
            raise EventDefinitionError(
                f"{event_class.__qualname__} is not an event: it has no `{needed}`."
                " Derive it from DomainEvent (or PydanticEvent), which gives it one."
            )
    event_version_of(event_class)
    event_codec(event_class)


def _subclasses(classes: Iterable[type]) -> Iterator[type]:
    for each in classes:
        yield from each.__subclasses__()
        yield from _subclasses(each.__subclasses__())


def _shown(event_type: type | str) -> str:
    return event_type_of(event_type) if isinstance(event_type, type) else event_type


default_registry = EventRegistry()
handles = default_registry.handles
"""Register the decorated class as a handler of an event class, or of event types by name.

`EventRegistry.handles` of the default registry: `@handles(OrderPlaced)`,
`@handles("order.placed")`, `@handles("order.*")`, `@handles(OrderPlaced, name="send_receipt")`.
"""
get_handlers_for = default_registry.get_handlers_for
"""Return the handler classes of an event class or event type, in order of registration.

`EventRegistry.get_handlers_for` of the default registry: `get_handlers_for(OrderPlaced)`.
"""
upcasts = default_registry.upcasts
"""Register the decorated function: it turns a payload of `version` into the next version.

`EventRegistry.upcasts` of the default registry: `@upcasts(OrderPlaced, version=1)`.
"""
