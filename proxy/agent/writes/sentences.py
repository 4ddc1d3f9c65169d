"""The gateway's sentences about writes, in the languages of people, and the language of a conversation."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proxy.agent.writes.pending import State, Why
from proxy.apis.changes import ChangeWords
from proxy.dialects.codes import WORDS


@dataclass(frozen=True, slots=True)
class Sentences:
    """What the gateway says to a person in one language. Labels end with a colon."""

    nothing_sent: str
    to_do: str  # {line}
    to_do_all: str  # {line}
    to_do_some: str  # {line}
    to_leave: str  # {minutes}
    four_eyes: str
    do_it: str
    elsewhere: str  # {url}
    address: str
    header: str
    body: str
    none: str
    empty: str
    as_: str
    as_key: str  # {key}, {api}
    as_gateway: str  # {api}
    fixed: str
    now: str
    more: str  # {count}
    from_passage: str
    from_result: str
    done_before: str  # {seconds}
    sent_before: str  # {seconds}
    text: str  # {chars}, {lines}
    left_out: str  # {chars}
    with_address: str
    file: str
    bytes: str
    done: str  # {what}, {status}
    failed: str  # {what}, {status}
    unsent: str  # {what}
    broke: str  # {what}, {status}
    unknown: str  # {what}
    unclear: str  # {what}, {status}
    settle: str  # {read}
    still: str  # {read}, {state}
    undo: str  # {operation}
    not_read: str
    changes: ChangeWords
    states: Mapping[State, str]
    denied: Mapping[Why, str]


_ENGLISH = Sentences(
    nothing_sent="This will change something. Nothing has been sent yet.",
    to_do="To do it, answer: {line}",
    to_do_all="To do all, answer: {line}",
    to_do_some="To do some: {line}",
    to_leave="To leave it, answer anything else. Valid for {minutes} minutes.",
    four_eyes="Another person has to approve this, with another key: the code line alone sends nothing.",
    do_it="Do it",
    elsewhere="A person has to confirm this: not by this tool, but in an application of the team, which answers by "
    "{url}.",
    address="address:",
    header="header:",
    body="body:",
    none="none",
    empty="empty",
    as_="as:",
    as_key="key {key} of {api}",
    as_gateway="the gateway's account at {api}",
    fixed="fixed:",
    now="now:",
    more="{count} more",
    from_passage="value from a document, not from you:",
    from_result="value from a result, not from you:",
    done_before="done already: {seconds} s ago, with the same content",
    sent_before="sent before: {seconds} s ago, with the same content; whether it was done is not known",
    text="text ({chars} characters, lines: {lines})",
    left_out="{chars} characters left out",
    with_address="left out, too:",
    file="file",
    bytes="bytes",
    done="Done: {what} (status {status}).",
    failed="Not done: {what} was refused (status {status}).",
    unsent="Not done: {what} was not sent.",
    broke="Perhaps not done: the API failed (status {status}) after it got {what}, which does not prove that "
    "nothing was done. It is not sent again.",
    unknown="It is not known whether this was done: {what} was sent, and no answer came. It is not sent again.",
    unclear="It is not known whether this was done: {what} was sent, and the answer (status {status}) does not "
    "say. It is not sent again.",
    settle="This read tells: {read}",
    still="{read} still shows {state}; it may still be done.",
    undo="It can be undone: {operation}",
    not_read="What waits for this code cannot be read at present. Nothing was sent: answer with the code again later.",
    changes=ChangeWords(
        added="added {value}",
        removed="removed {value}",
        moved="in another order",
        created="created: {value}",
        gone="gone: was {value}",
        nothing="nothing changed",
        absent="not there before, and not there now",
        others="{count} more changes",
        cut="{chars} characters",
    ),
    states={
        "pending": "waits",
        "claimed": "is being sent",
        "done": "done",
        "failed": "failed",
        "unknown": "unknown",
        "void": "given up",
    },
    denied={
        "wrong_code": "This is not the code that was shown. Nothing was sent.",
        "wrong_number": "There is no action with this number. Nothing was sent.",
        "expired": "The code is no longer valid. Nothing was sent. Ask again, and you get a new code.",
        "used": "This code was used before. Nothing was sent again.",
        "void": "This code no longer counts, because something else was said in between. Nothing was sent.",
        "other_person": "This code was shown to somebody else. Nothing was sent.",
        "rights_changed": "The rights or the API have changed since this was shown. Nothing was sent. Ask again.",
        "four_eyes": "Another person has to approve this. Nothing was sent.",
        "unknown": "No action waits for this code. Nothing was sent.",
    },
)
_GERMAN = Sentences(
    nothing_sent="Das wird etwas ändern. Noch wurde nichts gesendet.",
    to_do="Um es auszuführen, antworten Sie: {line}",
    to_do_all="Um alles auszuführen, antworten Sie: {line}",
    to_do_some="Um einen Teil auszuführen: {line}",
    to_leave="Um es zu lassen, antworten Sie irgendetwas anderes. Gültig für {minutes} Minuten.",
    four_eyes="Eine andere Person muss dies mit einem anderen Schlüssel genehmigen: Die Codezeile allein sendet "
    "nichts.",
    do_it="Ausführen",
    elsewhere="Eine Person muss dies bestätigen: nicht mit diesem Werkzeug, sondern in einer Anwendung des Teams, "
    "die über {url} antwortet.",
    address="Adresse:",
    header="Header:",
    body="Inhalt:",
    none="keiner",
    empty="leer",
    as_="als:",
    as_key="Schlüssel {key} von {api}",
    as_gateway="das Konto des Gateways bei {api}",
    fixed="fest:",
    now="jetzt:",
    more="{count} weitere",
    from_passage="Wert aus einem Dokument, nicht von Ihnen:",
    from_result="Wert aus einem Ergebnis, nicht von Ihnen:",
    done_before="schon ausgeführt: vor {seconds} s, mit demselben Inhalt",
    sent_before="schon gesendet: vor {seconds} s, mit demselben Inhalt; ob es ausgeführt wurde, ist nicht bekannt",
    text="Text ({chars} Zeichen, Zeilen: {lines})",
    left_out="{chars} Zeichen ausgelassen",
    with_address="darin:",
    file="Datei",
    bytes="Bytes",
    done="Ausgeführt: {what} (Status {status}).",
    failed="Nicht ausgeführt: {what} wurde abgelehnt (Status {status}).",
    unsent="Nicht ausgeführt: {what} wurde nicht gesendet.",
    broke="Vielleicht nicht ausgeführt: Die API hatte einen Fehler (Status {status}), nachdem sie {what} "
    "bekam. Das beweist nicht, dass nichts getan wurde. Es wird nicht noch einmal gesendet.",
    unknown="Ob dies ausgeführt wurde, ist nicht bekannt: {what} wurde gesendet, und es kam keine Antwort. "
    "Es wird nicht noch einmal gesendet.",
    unclear="Ob dies ausgeführt wurde, ist nicht bekannt: {what} wurde gesendet, und die Antwort (Status "
    "{status}) sagt es nicht. Es wird nicht noch einmal gesendet.",
    settle="Dieser Abruf zeigt es: {read}",
    still="{read} zeigt noch {state}; es kann noch ausgeführt werden.",
    undo="Es lässt sich rückgängig machen: {operation}",
    not_read="Was auf diesen Code wartet, lässt sich gerade nicht lesen. Es wurde nichts gesendet: Antworten "
    "Sie später noch einmal mit dem Code.",
    changes=ChangeWords(
        added="{value} hinzugefügt",
        removed="{value} entfernt",
        moved="in anderer Reihenfolge",
        created="neu angelegt: {value}",
        gone="nicht mehr da; vorher: {value}",
        nothing="nichts hat sich geändert",
        absent="vorher nicht da und jetzt nicht da",
        others="{count} weitere Änderungen",
        cut="{chars} Zeichen",
    ),
    states={
        "pending": "wartet",
        "claimed": "wird gesendet",
        "done": "ausgeführt",
        "failed": "fehlgeschlagen",
        "unknown": "nicht bekannt",
        "void": "aufgegeben",
    },
    denied={
        "wrong_code": "Das ist nicht der angezeigte Code. Es wurde nichts gesendet.",
        "wrong_number": "Es gibt keine Aktion mit dieser Nummer. Es wurde nichts gesendet.",
        "expired": "Der Code ist nicht mehr gültig. Es wurde nichts gesendet. Fragen Sie noch einmal, dann "
        "bekommen Sie "
        "einen neuen Code.",
        "used": "Dieser Code wurde schon benutzt. Es wurde nichts noch einmal gesendet.",
        "void": "Dieser Code gilt nicht mehr, weil inzwischen etwas anderes gesagt wurde. Es wurde nichts gesendet.",
        "other_person": "Dieser Code wurde einer anderen Person gezeigt. Es wurde nichts gesendet.",
        "rights_changed": "Die Rechte oder die API haben sich seit der Anzeige geändert. Es wurde nichts gesendet. "
        "Fragen Sie noch einmal.",
        "four_eyes": "Eine andere Person muss dies genehmigen. Es wurde nichts gesendet.",
        "unknown": "Zu diesem Code wartet keine Aktion. Es wurde nichts gesendet.",
    },
)
_FRENCH = Sentences(
    nothing_sent="Ceci va modifier quelque chose. Rien n'a encore été envoyé.",
    to_do="Pour le faire, répondez : {line}",
    to_do_all="Pour tout faire, répondez : {line}",
    to_do_some="Pour n'en faire qu'une partie : {line}",
    to_leave="Pour y renoncer, répondez autre chose. Valable {minutes} minutes.",
    four_eyes="Une autre personne doit l'approuver, avec une autre clé : la ligne de code seule n'envoie rien.",
    do_it="Le faire",
    elsewhere="Une personne doit le confirmer : non par cet outil, mais dans une application de l'équipe, qui "
    "répond par {url}.",
    address="adresse :",
    header="en-tête :",
    body="contenu :",
    none="aucun",
    empty="vide",
    as_="en tant que :",
    as_key="clé {key} de {api}",
    as_gateway="le compte de la passerelle chez {api}",
    fixed="fixe :",
    now="actuellement :",
    more="{count} de plus",
    from_passage="valeur tirée d'un document, pas de vous :",
    from_result="valeur tirée d'un résultat, pas de vous :",
    done_before="déjà fait : il y a {seconds} s, avec le même contenu",
    sent_before="déjà envoyé : il y a {seconds} s, avec le même contenu ; on ne sait pas si cela a été fait",
    text="texte ({chars} caractères, lignes : {lines})",
    left_out="{chars} caractères omis",
    with_address="dont :",
    file="fichier",
    bytes="octets",
    done="Fait : {what} (statut {status}).",
    failed="Pas fait : {what} a été refusé (statut {status}).",
    unsent="Pas fait : {what} n'a pas été envoyé.",
    broke="Peut-être pas fait : l'API a échoué (statut {status}) après avoir reçu {what}. Cela ne prouve pas "
    "que rien n'a été fait. Rien ne sera envoyé de nouveau.",
    unknown="On ne sait pas si cela a été fait : {what} a été envoyé, et aucune réponse n'est arrivée. "
    "Rien ne sera envoyé de nouveau.",
    unclear="On ne sait pas si cela a été fait : {what} a été envoyé, et la réponse (statut {status}) ne le dit "
    "pas. Rien ne sera envoyé de nouveau.",
    settle="Cette lecture le montre : {read}",
    still="{read} montre encore {state} ; cela peut encore se faire.",
    undo="Cela peut être annulé : {operation}",
    not_read="Ce qui attend ce code ne peut pas être lu en ce moment. Rien n'a été envoyé : répondez de nouveau "
    "avec le code plus tard.",
    changes=ChangeWords(
        added="{value} ajouté",
        removed="{value} retiré",
        moved="dans un autre ordre",
        created="créé : {value}",
        gone="n'existe plus ; avant : {value}",
        nothing="rien n'a changé",
        absent="absent avant, et absent maintenant",
        others="{count} autres changements",
        cut="{chars} caractères",
    ),
    states={
        "pending": "en attente",
        "claimed": "en cours d'envoi",
        "done": "fait",
        "failed": "échoué",
        "unknown": "inconnu",
        "void": "abandonné",
    },
    denied={
        "wrong_code": "Ce n'est pas le code affiché. Rien n'a été envoyé.",
        "wrong_number": "Aucune action n'a ce numéro. Rien n'a été envoyé.",
        "expired": "Le code n'est plus valable. Rien n'a été envoyé. Demandez de nouveau pour recevoir un "
        "nouveau code.",
        "used": "Ce code a déjà été utilisé. Rien n'a été envoyé de nouveau.",
        "void": "Ce code n'est plus valable, car autre chose a été dit entre-temps. Rien n'a été envoyé.",
        "other_person": "Ce code a été montré à une autre personne. Rien n'a été envoyé.",
        "rights_changed": "Les droits ou l'API ont changé depuis l'affichage. Rien n'a été envoyé. Demandez de "
        "nouveau.",
        "four_eyes": "Une autre personne doit l'approuver. Rien n'a été envoyé.",
        "unknown": "Aucune action n'attend ce code. Rien n'a été envoyé.",
    },
)
_SPANISH = Sentences(
    nothing_sent="Esto va a cambiar algo. Todavía no se ha enviado nada.",
    to_do="Para hacerlo, responda: {line}",
    to_do_all="Para hacerlo todo, responda: {line}",
    to_do_some="Para hacer solo una parte: {line}",
    to_leave="Para dejarlo, responda cualquier otra cosa. Válido durante {minutes} minutos.",
    four_eyes="Otra persona tiene que aprobarlo, con otra clave: la línea del código sola no envía nada.",
    do_it="Hacerlo",
    elsewhere="Una persona tiene que confirmarlo: no con esta herramienta, sino en una aplicación del equipo, que "
    "responde por {url}.",
    address="dirección:",
    header="cabecera:",
    body="contenido:",
    none="ninguno",
    empty="vacío",
    as_="como:",
    as_key="clave {key} de {api}",
    as_gateway="la cuenta de la pasarela en {api}",
    fixed="fijo:",
    now="ahora:",
    more="{count} más",
    from_passage="valor de un documento, no de usted:",
    from_result="valor de un resultado, no de usted:",
    done_before="ya se hizo: hace {seconds} s, con el mismo contenido",
    sent_before="ya se envió: hace {seconds} s, con el mismo contenido; no se sabe si se hizo",
    text="texto ({chars} caracteres, líneas: {lines})",
    left_out="{chars} caracteres omitidos",
    with_address="entre ellos:",
    file="archivo",
    bytes="bytes",
    done="Hecho: {what} (estado {status}).",
    failed="No hecho: {what} fue rechazado (estado {status}).",
    unsent="No hecho: {what} no se envió.",
    broke="Quizá no hecho: la API falló (estado {status}) después de recibir {what}. Esto no prueba que no se "
    "hiciera nada. No se enviará de nuevo.",
    unknown="No se sabe si esto se hizo: {what} se envió y no llegó ninguna respuesta. No se enviará de nuevo.",
    unclear="No se sabe si esto se hizo: {what} se envió, y la respuesta (estado {status}) no lo dice. No se "
    "enviará de nuevo.",
    settle="Esta lectura lo muestra: {read}",
    still="{read} todavía muestra {state}; aún puede hacerse.",
    undo="Se puede deshacer: {operation}",
    not_read="Lo que espera este código no se puede leer en este momento. No se ha enviado nada: responda de "
    "nuevo con el código más tarde.",
    changes=ChangeWords(
        added="{value} añadido",
        removed="{value} quitado",
        moved="en otro orden",
        created="creado: {value}",
        gone="ya no existe; antes: {value}",
        nothing="no ha cambiado nada",
        absent="no estaba antes ni está ahora",
        others="{count} cambios más",
        cut="{chars} caracteres",
    ),
    states={
        "pending": "en espera",
        "claimed": "enviándose",
        "done": "hecho",
        "failed": "fallido",
        "unknown": "no se sabe",
        "void": "abandonado",
    },
    denied={
        "wrong_code": "Este no es el código que se mostró. No se ha enviado nada.",
        "wrong_number": "No hay ninguna acción con este número. No se ha enviado nada.",
        "expired": "El código ya no es válido. No se ha enviado nada. Pregunte de nuevo y recibirá un código nuevo.",
        "used": "Este código ya se usó. No se ha vuelto a enviar nada.",
        "void": "Este código ya no vale, porque entretanto se dijo otra cosa. No se ha enviado nada.",
        "other_person": "Este código se mostró a otra persona. No se ha enviado nada.",
        "rights_changed": "Los permisos o la API han cambiado desde que se mostró. No se ha enviado nada. "
        "Pregunte de nuevo.",
        "four_eyes": "Otra persona tiene que aprobarlo. No se ha enviado nada.",
        "unknown": "Ninguna acción espera este código. No se ha enviado nada.",
    },
)
_ITALIAN = Sentences(
    nothing_sent="Questo modificherà qualcosa. Non è ancora stato inviato nulla.",
    to_do="Per farlo, risponda: {line}",
    to_do_all="Per fare tutto, risponda: {line}",
    to_do_some="Per farne solo una parte: {line}",
    to_leave="Per rinunciare, risponda qualsiasi altra cosa. Valido per {minutes} minuti.",
    four_eyes="Un'altra persona deve approvarlo, con un'altra chiave: la riga del codice da sola non invia nulla.",
    do_it="Farlo",
    elsewhere="Una persona deve confermarlo: non con questo strumento, ma in un'applicazione del team, che "
    "risponde tramite {url}.",
    address="indirizzo:",
    header="intestazione:",
    body="contenuto:",
    none="nessuno",
    empty="vuoto",
    as_="come:",
    as_key="chiave {key} di {api}",
    as_gateway="l'account del gateway presso {api}",
    fixed="fisso:",
    now="adesso:",
    more="altri {count}",
    from_passage="valore da un documento, non da Lei:",
    from_result="valore da un risultato, non da Lei:",
    done_before="già fatto: {seconds} s fa, con lo stesso contenuto",
    sent_before="già inviato: {seconds} s fa, con lo stesso contenuto; non si sa se sia stato fatto",
    text="testo ({chars} caratteri, righe: {lines})",
    left_out="{chars} caratteri omessi",
    with_address="tra cui:",
    file="file",
    bytes="byte",
    done="Fatto: {what} (stato {status}).",
    failed="Non fatto: {what} è stato rifiutato (stato {status}).",
    unsent="Non fatto: {what} non è stato inviato.",
    broke="Forse non fatto: l'API ha avuto un errore (stato {status}) dopo aver ricevuto {what}. Questo non "
    "prova che non sia stato fatto nulla. Non verrà inviato di nuovo.",
    unknown="Non si sa se questo sia stato fatto: {what} è stato inviato e non è arrivata alcuna risposta. "
    "Non verrà inviato di nuovo.",
    unclear="Non si sa se questo sia stato fatto: {what} è stato inviato, e la risposta (stato {status}) non lo "
    "dice. Non verrà inviato di nuovo.",
    settle="Questa lettura lo mostra: {read}",
    still="{read} mostra ancora {state}; può ancora essere fatto.",
    undo="Si può annullare: {operation}",
    not_read="Ciò che attende questo codice al momento non si può leggere. Non è stato inviato nulla: risponda "
    "di nuovo con il codice più tardi.",
    changes=ChangeWords(
        added="{value} aggiunto",
        removed="{value} rimosso",
        moved="in un altro ordine",
        created="creato: {value}",
        gone="non c'è più; prima: {value}",
        nothing="non è cambiato nulla",
        absent="non c'era prima e non c'è adesso",
        others="altre {count} modifiche",
        cut="{chars} caratteri",
    ),
    states={
        "pending": "in attesa",
        "claimed": "in corso di invio",
        "done": "fatto",
        "failed": "fallito",
        "unknown": "non si sa",
        "void": "abbandonato",
    },
    denied={
        "wrong_code": "Questo non è il codice mostrato. Non è stato inviato nulla.",
        "wrong_number": "Non esiste alcuna azione con questo numero. Non è stato inviato nulla.",
        "expired": "Il codice non è più valido. Non è stato inviato nulla. Chieda di nuovo per avere un nuovo codice.",
        "used": "Questo codice è già stato usato. Non è stato inviato di nuovo nulla.",
        "void": "Questo codice non vale più, perché nel frattempo è stato detto altro. Non è stato inviato nulla.",
        "other_person": "Questo codice è stato mostrato a un'altra persona. Non è stato inviato nulla.",
        "rights_changed": "I permessi o l'API sono cambiati da quando è stato mostrato. Non è stato inviato nulla. "
        "Chieda di nuovo.",
        "four_eyes": "Un'altra persona deve approvarlo. Non è stato inviato nulla.",
        "unknown": "Nessuna azione attende questo codice. Non è stato inviato nulla.",
    },
)
_PORTUGUESE = Sentences(
    nothing_sent="Isto vai alterar algo. Ainda nada foi enviado.",
    to_do="Para o fazer, responda: {line}",
    to_do_all="Para fazer tudo, responda: {line}",
    to_do_some="Para fazer só uma parte: {line}",
    to_leave="Para desistir, responda qualquer outra coisa. Válido por {minutes} minutos.",
    four_eyes="Outra pessoa tem de o aprovar, com outra chave: a linha do código sozinha não envia nada.",
    do_it="Fazer",
    elsewhere="Uma pessoa tem de o confirmar: não com esta ferramenta, mas numa aplicação da equipa, que responde "
    "por {url}.",
    address="endereço:",
    header="cabeçalho:",
    body="conteúdo:",
    none="nenhum",
    empty="vazio",
    as_="como:",
    as_key="chave {key} de {api}",
    as_gateway="a conta do gateway em {api}",
    fixed="fixo:",
    now="agora:",
    more="mais {count}",
    from_passage="valor de um documento, não seu:",
    from_result="valor de um resultado, não seu:",
    done_before="já feito: há {seconds} s, com o mesmo conteúdo",
    sent_before="já enviado: há {seconds} s, com o mesmo conteúdo; não se sabe se foi feito",
    text="texto ({chars} caracteres, linhas: {lines})",
    left_out="{chars} caracteres omitidos",
    with_address="entre eles:",
    file="ficheiro",
    bytes="bytes",
    done="Feito: {what} (estado {status}).",
    failed="Não feito: {what} foi recusado (estado {status}).",
    unsent="Não feito: {what} não foi enviado.",
    broke="Talvez não feito: a API falhou (estado {status}) depois de receber {what}. Isto não prova que nada "
    "foi feito. Não será enviado de novo.",
    unknown="Não se sabe se isto foi feito: {what} foi enviado e não chegou nenhuma resposta. Não será enviado "
    "de novo.",
    unclear="Não se sabe se isto foi feito: {what} foi enviado, e a resposta (estado {status}) não o diz. Não "
    "será enviado de novo.",
    settle="Esta leitura mostra-o: {read}",
    still="{read} ainda mostra {state}; ainda pode ser feito.",
    undo="Pode ser desfeito: {operation}",
    not_read="O que espera por este código não pode ser lido de momento. Nada foi enviado: responda de novo com "
    "o código mais tarde.",
    changes=ChangeWords(
        added="{value} adicionado",
        removed="{value} removido",
        moved="noutra ordem",
        created="criado: {value}",
        gone="já não existe; antes: {value}",
        nothing="nada mudou",
        absent="não existia antes nem existe agora",
        others="mais {count} alterações",
        cut="{chars} caracteres",
    ),
    states={
        "pending": "à espera",
        "claimed": "a ser enviado",
        "done": "feito",
        "failed": "falhou",
        "unknown": "não se sabe",
        "void": "abandonado",
    },
    denied={
        "wrong_code": "Este não é o código mostrado. Nada foi enviado.",
        "wrong_number": "Não há nenhuma ação com este número. Nada foi enviado.",
        "expired": "O código já não é válido. Nada foi enviado. Pergunte de novo para receber um novo código.",
        "used": "Este código já foi usado. Nada foi enviado de novo.",
        "void": "Este código já não vale, porque entretanto foi dita outra coisa. Nada foi enviado.",
        "other_person": "Este código foi mostrado a outra pessoa. Nada foi enviado.",
        "rights_changed": "As permissões ou a API mudaram desde que isto foi mostrado. Nada foi enviado. "
        "Pergunte de novo.",
        "four_eyes": "Outra pessoa tem de o aprovar. Nada foi enviado.",
        "unknown": "Nenhuma ação espera por este código. Nada foi enviado.",
    },
)
_DUTCH = Sentences(
    nothing_sent="Dit gaat iets wijzigen. Er is nog niets verzonden.",
    to_do="Antwoord om het te doen: {line}",
    to_do_all="Antwoord om alles te doen: {line}",
    to_do_some="Om een deel te doen: {line}",
    to_leave="Antwoord iets anders om het te laten. Geldig gedurende {minutes} minuten.",
    four_eyes="Iemand anders moet dit goedkeuren, met een andere sleutel: de coderegel alleen verzendt niets.",
    do_it="Uitvoeren",
    elsewhere="Een persoon moet dit bevestigen: niet met dit hulpmiddel, maar in een toepassing van het team, die "
    "via {url} antwoordt.",
    address="adres:",
    header="header:",
    body="inhoud:",
    none="geen",
    empty="leeg",
    as_="als:",
    as_key="sleutel {key} van {api}",
    as_gateway="het account van de gateway bij {api}",
    fixed="vast:",
    now="nu:",
    more="nog {count}",
    from_passage="waarde uit een document, niet van u:",
    from_result="waarde uit een resultaat, niet van u:",
    done_before="al gedaan: {seconds} s geleden, met dezelfde inhoud",
    sent_before="al verzonden: {seconds} s geleden, met dezelfde inhoud; of het gedaan is, is niet bekend",
    text="tekst ({chars} tekens, regels: {lines})",
    left_out="{chars} tekens weggelaten",
    with_address="waaronder:",
    file="bestand",
    bytes="bytes",
    done="Gedaan: {what} (status {status}).",
    failed="Niet gedaan: {what} is geweigerd (status {status}).",
    unsent="Niet gedaan: {what} is niet verzonden.",
    broke="Misschien niet gedaan: de API had een fout (status {status}) nadat zij {what} kreeg. Dat bewijst "
    "niet dat er niets is gedaan. Het wordt niet opnieuw verzonden.",
    unknown="Het is niet bekend of dit gedaan is: {what} is verzonden, en er kwam geen antwoord. "
    "Het wordt niet opnieuw verzonden.",
    unclear="Het is niet bekend of dit gedaan is: {what} is verzonden, en het antwoord (status {status}) zegt "
    "het niet. Het wordt niet opnieuw verzonden.",
    settle="Deze opvraging laat het zien: {read}",
    still="{read} toont nog {state}; het kan nog gedaan worden.",
    undo="Het kan ongedaan worden gemaakt: {operation}",
    not_read="Wat op deze code wacht, kan nu niet worden gelezen. Er is niets verzonden: antwoord later nog "
    "eens met de code.",
    changes=ChangeWords(
        added="{value} toegevoegd",
        removed="{value} verwijderd",
        moved="in een andere volgorde",
        created="aangemaakt: {value}",
        gone="niet meer aanwezig; eerst: {value}",
        nothing="er is niets gewijzigd",
        absent="eerst niet aanwezig, en nu ook niet",
        others="nog {count} wijzigingen",
        cut="{chars} tekens",
    ),
    states={
        "pending": "wacht",
        "claimed": "wordt verzonden",
        "done": "gedaan",
        "failed": "mislukt",
        "unknown": "niet bekend",
        "void": "opgegeven",
    },
    denied={
        "wrong_code": "Dit is niet de getoonde code. Er is niets verzonden.",
        "wrong_number": "Er is geen actie met dit nummer. Er is niets verzonden.",
        "expired": "De code is niet meer geldig. Er is niets verzonden. Vraag het opnieuw, dan krijgt u een "
        "nieuwe code.",
        "used": "Deze code is al gebruikt. Er is niets opnieuw verzonden.",
        "void": "Deze code geldt niet meer, omdat er intussen iets anders is gezegd. Er is niets verzonden.",
        "other_person": "Deze code is aan iemand anders getoond. Er is niets verzonden.",
        "rights_changed": "De rechten of de API zijn gewijzigd sinds dit werd getoond. Er is niets verzonden. "
        "Vraag het opnieuw.",
        "four_eyes": "Iemand anders moet dit goedkeuren. Er is niets verzonden.",
        "unknown": "Er wacht geen actie op deze code. Er is niets verzonden.",
    },
)
_ALL: Mapping[str, Sentences] = {
    "en": _ENGLISH,
    "de": _GERMAN,
    "fr": _FRENCH,
    "es": _SPANISH,
    "it": _ITALIAN,
    "pt": _PORTUGUESE,
    "nl": _DUTCH,
}
# The words that people use most in short requests, which few other languages of the list have.
_FREQUENT: Mapping[str, frozenset[str]] = {
    "en": frozenset(
        "the and is to of a in for my please with this that it what you i can could would do not be on at "
        "from order delete cancel change create send show me all add remove set make which are have has an as "
        "by if how when".split()
    ),
    "de": frozenset(
        "der die das und ist nicht ein eine einen einem einer ich mir mich mein meine meinen meiner du sie "
        "bitte für mit auf den dem des von zu zum zur im am wie was wann welche kannst können lösche löschen "
        "storniere stornieren ändere ändern sende schicke bestelle bestellung erstelle zeige alle noch wird "
        "werden auch oder hat habe".split()
    ),
    "fr": frozenset(
        "le la les un une de des du et est pas je tu il vous nous mon ma mes votre ce cette pour avec dans "
        "sur qui que quoi quel quelle au aux moi merci plaît veuillez supprime supprimer annule annuler "
        "envoie envoyer crée créer commande modifie modifier montre tous toutes ne en peux pouvez".split()
    ),
    "es": frozenset(
        "el la los las un una y es no por favor mi mis tu su con para en de del que cuál qué quiero puedes "
        "puede borra elimina cancela cancelar envía crea cambia muestra pedido lo le me todos todas este esta "
        "al como cuando".split()
    ),
    "it": frozenset(
        "il lo la gli le un una e è non per favore mio mia miei con di del della dei delle nel l vorrei che "
        "quale cosa voglio puoi può elimina cancella annulla annullare invia crea cambia mostra ordine mi "
        "tutti tutte questo questa alla al come".split()
    ),
    "pt": frozenset(
        "o a os as um uma e é não de por favor meu minha meus com para em no na do da dos das que qual quero "
        "pode você apague exclua cancele cancelar envie crie altere mostre pedido me todos todas este esta ao "
        "como quando".split()
    ),
    "nl": frozenset(
        "de het een en is niet ik mij mijn je u uw alstublieft graag met voor van op in te dat die deze wat "
        "welke kun kunt verwijder annuleer wijzig stuur maak toon bestelling alle ook of naar aan bij er "
        "worden heb heeft".split()
    ),
}
_LETTERS = re.compile(r"[^\W\d_]+")
_LEAST_WORDS = 2  # that decide for a language
_MOST_TEXT_CHARS = 4_000


def language_of(said: Sequence[str]) -> str:
    """The language of a person's messages, of those with sentences here; English if in doubt.

    The search engine's own detection (`retrieval.lexical.terms`) needs the engine, which the gateway does not load.
    """
    words = _LETTERS.findall("\n".join(said)[-_MOST_TEXT_CHARS:].lower())
    counts = {code: sum(word in frequent for word in words) for code, frequent in _FREQUENT.items()}
    best = max(counts, key=lambda code: counts[code])
    tied = sum(count == counts[best] for count in counts.values()) > 1
    return "en" if tied or counts[best] < _LEAST_WORDS else best


def sentences(language: str) -> Sentences:
    """The sentences in a language (ISO 639-1); English without a translation."""
    return _ALL.get(language, _ENGLISH)


def language_in(accept: str) -> str:
    """The first language of a header Accept-Language that has sentences here; English without one."""
    named = (one.strip()[:2].lower() for one in accept.split(","))
    return next((one for one in named if one in _ALL), "en")


def confirm_word(language: str) -> str:
    """The word of the code line; `confirm` is accepted in every language."""
    return WORDS["en"] if sentences(language) is _ENGLISH else WORDS.get(language, WORDS["en"])
