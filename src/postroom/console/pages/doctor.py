"""Doctor: the findings of `postroom doctor`, with their remedies."""

from starlette.requests import Request
from starlette.responses import Response

from postroom.console.rendering import page, redirect
from postroom.console.state import state_of


async def doctor(request: Request) -> Response:
    """Show what the checks have found, and go on while they run."""
    checkup = state_of(request).checkup
    if "again" in request.query_params:  # once: the page of the findings is fetched again
        checkup.start()
        return redirect(request, "/doctor")
    findings = await checkup.findings()
    return page(
        request, "doctor.html", findings=findings, refresh=None if findings.is_finished else 1
    )
