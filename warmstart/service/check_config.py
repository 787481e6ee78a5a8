"""Check the settings of a server without starting it."""

import ssl

from warmstart.history_store.errors import StorageError
from warmstart.history_store.wording import counted
from warmstart.service.auth import read_tokens
from warmstart.service.core import Service
from warmstart.service.settings import ServiceSettings
from warmstart.service.study_book import StudyBook


def check_config(settings: ServiceSettings) -> dict[str, str]:
    """Open all that a server with these settings needs; nothing is made.

    Returns: what was found, by what it is.

    Raises:
        WarmstartError: the first that cannot be used.
    """
    service = Service(settings, StudyBook(settings.storage))
    embedded = service.embedded_or_empty()
    parts = {"history": "empty" if embedded is None else f"{embedded.path}: {counted(len(embedded.names), 'dataset')}"}
    try:
        service.studies.check()
        if service.studies.is_empty:
            parts["studies"] = "none yet; the storage is made with the first"
        else:
            with service.studies.store() as store:
                parts["studies"] = f"{store.display_name}: {counted(len(store.optuna.get_all_studies()), 'study')}"
    finally:
        service.studies.close()
    if settings.token_file is not None:
        tokens = read_tokens(settings.token_file)
        parts["tokens"] = f"{settings.token_file}: {len(tokens)}"
        if settings.trust_proxy:
            n_lines = sum(not token.digest for token in tokens)
            parts["proxy"] = f"{', '.join(settings.trust_proxy)}: {counted(n_lines, 'line')} of users and groups"
    if settings.classifier is not None:
        parts["classifier"] = f"{settings.classifier}: {counted(len(service.classifier().classes), 'class')}"
    if settings.tls_cert is not None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.tls_cert, settings.tls_key)
        except OSError as error:  # ssl.SSLError is one
            msg = f"{settings.tls_cert}: expected a certificate chain in PEM whose key is {settings.tls_key}, got others ({error}). Check both."
            raise StorageError(msg, param="tls_cert") from error
        parts["certificate"] = str(settings.tls_cert)
    return parts
