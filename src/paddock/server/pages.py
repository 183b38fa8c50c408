"""Pages that a server shows in a browser: its OpenAPI page, whose script and style come from the server itself.

Law     nothing is fetched from elsewhere: the page works on a machine without a network.
"""

from importlib.resources import files

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.staticfiles import StaticFiles
from starlette.responses import HTMLResponse

ASSETS = "/docs/assets"
PAGES = frozenset({"/docs", "/openapi.json"})


def add_docs(app: FastAPI) -> None:
    """Serve the app's OpenAPI description as a page at `/docs`."""
    app.mount(ASSETS, StaticFiles(directory=str(files("fastapi_offline") / "static")))

    async def docs() -> HTMLResponse:
        return get_swagger_ui_html(
            openapi_url=app.openapi_url or "",
            title=app.title,
            swagger_js_url=f"{ASSETS}/swagger-ui-bundle.js",
            swagger_css_url=f"{ASSETS}/swagger-ui.css",
            swagger_favicon_url=f"{ASSETS}/favicon.png",
        )

    app.add_api_route("/docs", docs, methods=["GET"], include_in_schema=False)
