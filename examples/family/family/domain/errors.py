"""What the rules say no to. Each becomes a type of the API.

DomainError
├── InvalidEmailError
├── InvalidFamilyNameError
├── FamilyNotFoundError
├── NotAllowedError
├── RoleNotAllowedError
├── AlreadyMemberError
├── AlreadyInvitedError
├── TooManyInvitationsError
├── InvitationNotFoundError
├── InvitationExpiredError
├── InvitationAcceptedError
├── ResendTooSoonError
└── TooManyResendsError
"""


class DomainError(Exception):
    """Base of them all. Its text is for the user."""

    message = ""

    def __str__(self) -> str:
        return self.message


class InvalidEmailError(DomainError):
    """Raised when a text is no email address."""

    message = "This is not an email address."


class InvalidFamilyNameError(DomainError):
    """Raised when a text cannot be the name of a family."""

    message = "A family's name has 1 to 100 printable characters."


class FamilyNotFoundError(DomainError):
    """Raised when there is no such family, or none that the user may know of."""

    message = "There is no such family."


class NotAllowedError(DomainError):
    """Raised when a member invites who may not."""

    message = "Only owners and admins of a family may invite."


class RoleNotAllowedError(DomainError):
    """Raised when a member invites somebody as more than they may."""

    message = "You may not invite anybody with this role."


class AlreadyMemberError(DomainError):
    """Raised when somebody is in the family already."""

    message = "This person is a member of the family already."


class AlreadyInvitedError(DomainError):
    """Raised when an address has an open invitation of the family."""

    message = "This address has been invited already. Resend the invitation instead."


class TooManyInvitationsError(DomainError):
    """Raised when an address has been sent too many invitations, by all families together."""

    message = "This address has been sent several invitations already. Try again tomorrow."


class InvitationNotFoundError(DomainError):
    """Raised when there is no such invitation, or none that the user may know of."""

    message = "There is no such invitation."


class InvitationExpiredError(DomainError):
    """Raised when an invitation is too old, or another has taken its place."""

    message = "This invitation has expired."


class InvitationAcceptedError(DomainError):
    """Raised when an invitation has been accepted before."""

    message = "This invitation has been accepted already."


class ResendTooSoonError(DomainError):
    """Raised when an invitation was sent a moment ago."""

    message = "This invitation was sent a moment ago. Try again in some minutes."


class TooManyResendsError(DomainError):
    """Raised when an invitation has been resent as often as it can be."""

    message = "This invitation cannot be resent any more. Invite the address once it has expired."
